package pods

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

func TestEveryEncodingOfAPodIsTheSamePod(t *testing.T) {
	set, err := NewSet(7, 1000)
	if err != nil {
		t.Fatal(err)
	}
	w := set.NewWriter()
	names := map[string]bool{}
	total, stripped := 0, 0
	for i := range set.Len() {
		item := w.AppendJSONItem(nil, i, FirstVersion+uint64(i))
		if bytes.Contains(item, []byte("zq")) && bytes.Contains(item, []byte("zzzz")) {
			t.Fatalf("a marker is left: %s", item)
		}
		var fromJSON, fromProto, fromEvent corev1.Pod
		if err := json.Unmarshal(item, &fromJSON); err != nil {
			t.Fatal(err)
		}
		if err := fromProto.Unmarshal(w.AppendProtoItem(nil, i, FirstVersion+uint64(i))); err != nil {
			t.Fatal(err)
		}
		frame := w.AppendProtoEvent(nil, "ADDED", i, FirstVersion+uint64(i), 0)
		var event metav1.WatchEvent
		if err := event.Unmarshal(frame[4:]); err != nil || int(binary.BigEndian.Uint32(frame)) != len(frame)-4 {
			t.Fatal(err, "or a wrong length")
		}
		if _, _, err := protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme).Decode(event.Object.Raw, nil, &fromEvent); err != nil {
			t.Fatal(err)
		}
		fromEvent.TypeMeta = metav1.TypeMeta{}
		if !equality.Semantic.DeepEqual(fromJSON, fromProto) || !equality.Semantic.DeepEqual(fromJSON, fromEvent) {
			t.Fatalf("pod %d differs between encodings", i)
		}
		names[fromJSON.Namespace+"/"+fromJSON.Name] = true
		total += len(item)
		fromJSON.ManagedFields = nil
		without, err := json.Marshal(&fromJSON)
		if err != nil {
			t.Fatal(err)
		}
		stripped += len(without)
	}
	if len(names) != set.Len() {
		t.Fatalf("%d names of %d pods", len(names), set.Len())
	}
	t.Logf("%d bytes a pod, %d without managedFields", total/set.Len(), stripped/set.Len())
	if mean := total / set.Len(); mean < 8500 || mean > 9500 {
		t.Errorf("%d bytes a pod instead of about 9 KB", mean)
	}
	if mean := stripped / set.Len(); mean < 4800 || mean > 5500 {
		t.Errorf("%d bytes a pod without managedFields instead of about 5.1 KB", mean)
	}
}

func TestAPodDependsOnTheSeedAndItsNumberAlone(t *testing.T) {
	one, err := NewSet(1, 100)
	if err != nil {
		t.Fatal(err)
	}
	again, err := NewSet(1, 100)
	if err != nil {
		t.Fatal(err)
	}
	a, b := one.NewWriter(), again.NewWriter()
	b.AppendJSONItem(nil, 3, FirstVersion)
	if !bytes.Equal(a.AppendJSONItem(nil, 42, FirstVersion), b.AppendJSONItem(nil, 42, FirstVersion)) {
		t.Fatal("the same pod differs")
	}
}
