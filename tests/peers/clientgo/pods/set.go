package pods

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

const (
	// Templates is how many different pods there are behind the random values.
	Templates = 240
	// Namespaces is how many namespaces the pods are in.
	Namespaces = 20
	// Replicas of one ReplicaSet.
	Replicas = 10
	// PodsPerNode is how many pods a node has in the mean.
	PodsPerNode = 50
	// PodsPerRack is how many pods have the same label "topology.kubernetes.io/rack".
	PodsPerRack = 333
	// FirstVersion is the resource version of the first pod.
	FirstVersion = 1_000_000_000
	// SentAnnotation holds when an event was sent, in nanoseconds since the epoch.
	SentAnnotation = "bench.example.com/sent"
)

// Set is a number of pods.
type Set struct {
	seed                uint64
	count, nodes, racks int
	templates           []template
}

type template struct {
	jsonItem, jsonObject, protoItem form
	// By the type of the event.
	protoEvents map[string]form
}

// NewSet prepares the templates of a set.
func NewSet(seed uint64, count int) (*Set, error) {
	s := &Set{seed: seed, count: count, nodes: max(1, count/PodsPerNode), racks: max(1, count/PodsPerRack)}
	for n := range Templates {
		t, err := newTemplate(templatePod(seed, n))
		if err != nil {
			return nil, fmt.Errorf("template %d: %w", n, err)
		}
		s.templates = append(s.templates, t)
	}
	return s, nil
}

func newTemplate(pod *corev1.Pod) (template, error) {
	t := template{protoEvents: map[string]form{}}
	item, err := json.Marshal(pod)
	if err != nil {
		return t, err
	}
	t.jsonItem = newForm(item, false)
	raw, err := pod.Marshal()
	if err != nil {
		return t, err
	}
	t.protoItem = newForm(raw, true)
	whole := pod.DeepCopy()
	whole.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	object, err := json.Marshal(whole)
	if err != nil {
		return t, err
	}
	t.jsonObject = newForm(object, false)
	for _, kind := range []string{"ADDED", "MODIFIED"} {
		frame, err := ProtoFrame(kind, whole)
		if err != nil {
			return t, err
		}
		t.protoEvents[kind] = newForm(frame, true)
	}
	// A marker that one encoding writes in another way would leave all pods alike there.
	if t.jsonItem.count() != t.protoItem.count() || t.jsonItem.count() != t.protoEvents["ADDED"].count() {
		return t, fmt.Errorf("markers: %v in JSON, %v in protobuf", t.jsonItem.count(), t.protoItem.count())
	}
	return t, nil
}

// ProtoFrame is an event as a protobuf watch sends it: its length, and a WatchEvent around the object.
func ProtoFrame(kind string, object runtime.Object) ([]byte, error) {
	serializer := protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme)
	var embedded bytes.Buffer
	if err := serializer.Encode(object, &embedded); err != nil {
		return nil, err
	}
	event := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: embedded.Bytes()}}
	raw, err := event.Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...), nil
}

// Len is the number of pods.
func (s *Set) Len() int { return s.count }

func (s *Set) template(i int) *template {
	return &s.templates[mix(s.seed^uint64(i/Replicas)*31)%uint64(len(s.templates))]
}

// ProtoItemLen is the length of what AppendProtoItem appends.
func (s *Set) ProtoItemLen(i int) int { return len(s.template(i).protoItem.bytes) }

// Writer writes pods of a set; not for use by several goroutines.
type Writer struct {
	*Set
	values values
}

// NewWriter makes a writer.
func (s *Set) NewWriter() *Writer { return &Writer{Set: s} }

// AppendJSONItem writes pod i as an item of a list.
func (w *Writer) AppendJSONItem(dst []byte, i int, version uint64) []byte {
	w.fill(&w.values, i, version, 0)
	return w.template(i).jsonItem.append(dst, &w.values)
}

// AppendProtoItem writes pod i as an item of a list, without its length.
func (w *Writer) AppendProtoItem(dst []byte, i int, version uint64) []byte {
	w.fill(&w.values, i, version, 0)
	return w.template(i).protoItem.append(dst, &w.values)
}

// AppendJSONEvent writes an event about pod i, line break included.
func (w *Writer) AppendJSONEvent(dst []byte, kind string, i int, version uint64, sent int64) []byte {
	w.fill(&w.values, i, version, sent)
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","object":`...)
	dst = w.template(i).jsonObject.append(dst, &w.values)
	return append(dst, "}\n"...)
}

// AppendProtoEvent writes an event about pod i as a frame.
func (w *Writer) AppendProtoEvent(dst []byte, kind string, i int, version uint64, sent int64) []byte {
	w.fill(&w.values, i, version, sent)
	return w.template(i).protoEvents[kind].append(dst, &w.values)
}
