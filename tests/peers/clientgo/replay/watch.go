package replay

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pilothouse/peers/pods"
)

// event is a change of a pod.
type event struct {
	pod     int
	version uint64
	sent    int64
}

// watch is one client's.
type watch struct {
	events chan event
	// Closed when its version is gone.
	expired chan struct{}
}

// Events that may wait for a slow client before it is cut off, as the API server does.
const backlog = 1 << 17

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	version, _ := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	mine := &watch{events: make(chan event, backlog), expired: make(chan struct{})}
	s.mu.Lock()
	if !initial && version < s.oldest {
		s.mu.Unlock()
		fail(w, http.StatusGone, "Expired", "too old resource version")
		return
	}
	s.watches[mine] = struct{}{}
	versions, newest := []uint64(nil), s.newest
	if initial {
		versions = append(versions, s.versions...)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watches, mine)
		s.mu.Unlock()
	}()
	s.stats.Open.Add(1)
	defer s.stats.Open.Add(-1)

	proto := wantsProto(r)
	if proto {
		s.stats.ProtoWatches.Add(1)
		w.Header().Set("Content-Type", protobufType+";stream=watch")
	} else {
		s.stats.JSONWatches.Add(1)
		w.Header().Set("Content-Type", "application/json")
	}
	control := http.NewResponseController(w)
	writer := s.set.NewWriter()
	encode := func(out []byte, kind string, e event) []byte {
		if proto {
			return writer.AppendProtoEvent(out, kind, e.pod, e.version, e.sent)
		}
		return writer.AppendJSONEvent(out, kind, e.pod, e.version, e.sent)
	}
	out := make([]byte, 0, chunk+64<<10)
	for i, version := range versions {
		out = encode(out, "ADDED", event{pod: i, version: version})
		if len(out) >= chunk {
			if _, err := w.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
	}
	if initial {
		out = append(out, bookmark(proto, newest)...)
		s.stats.WatchLists.Add(1)
	}
	_, _ = w.Write(out)
	if control.Flush() != nil {
		return
	}
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	if seconds <= 0 {
		seconds = math.MaxInt32
	}
	timeout := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timeout.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-timeout.C:
			return
		case <-mine.expired:
			_, _ = w.Write(gone(proto))
			return
		case e := <-mine.events:
			out = encode(out[:0], "MODIFIED", e)
			// Flushed when nothing waits, as the API server does.
			for len(mine.events) > 0 && len(out) < chunk {
				out = encode(out, "MODIFIED", <-mine.events)
			}
			if _, err := w.Write(out); err != nil || control.Flush() != nil {
				return
			}
		}
	}
}

func bookmark(proto bool, version uint64) []byte {
	end := map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(version), Annotations: end}}
	if proto {
		frame, _ := pods.ProtoFrame("BOOKMARK", pod)
		return frame
	}
	return fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d","annotations":{%q:"true"}},"spec":{"containers":null},"status":{}}}`+"\n", version, metav1.InitialEventsAnnotationKey)
}

func gone(proto bool) []byte {
	status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Message: "too old resource version", Reason: metav1.StatusReasonExpired, Code: http.StatusGone}
	if proto {
		frame, _ := pods.ProtoFrame("ERROR", status)
		return frame
	}
	var out bytes.Buffer
	_, _ = fmt.Fprintf(&out, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":"Expired","code":410}}`+"\n", status.Message)
	return out.Bytes()
}
