package replay

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const protobufType = "application/vnd.kubernetes.protobuf"

// protoMagic begins an object in protobuf.
const protoMagic = "k8s\x00"

// Bytes that are gathered before they are written.
const chunk = 128 << 10

func wantsProto(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	return strings.HasPrefix(first, protobufType)
}

// list answers with a page, or with everything when it is asked for from the cache, as the API server's watch cache
// does.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	from, to, version := 0, s.set.Len(), ""
	if token := query.Get("continue"); token != "" {
		at, listed, ok := strings.Cut(token, ".")
		start, err := strconv.Atoi(at)
		if !ok || err != nil || start < 0 || start > s.set.Len() {
			fail(w, http.StatusBadRequest, "BadRequest", "a token of another server")
			return
		}
		from, version = start, listed
	}
	if limit > 0 && query.Get("resourceVersion") != "0" && from+limit < to {
		to = from + limit
	}
	versions, newest := s.state(from, to)
	if version == "" {
		version = fmt.Sprint(newest)
	}
	meta := metav1.ListMeta{ResourceVersion: version}
	if rest := int64(s.set.Len() - to); rest > 0 {
		meta.Continue, meta.RemainingItemCount = fmt.Sprintf("%d.%s", to, version), &rest
	}
	s.stats.Pages.Add(1)
	if wantsProto(r) {
		w.Header().Set("Content-Type", protobufType)
		s.protoList(w, from, to, versions, meta)
		s.stats.ProtoLists.Add(finished(meta))
	} else {
		w.Header().Set("Content-Type", "application/json")
		s.jsonList(w, from, to, versions, meta)
		s.stats.JSONLists.Add(finished(meta))
	}
}

// finished counts a list at its last page.
func finished(meta metav1.ListMeta) int64 {
	if meta.Continue == "" {
		return 1
	}
	return 0
}

func (s *Server) jsonList(w http.ResponseWriter, from, to int, versions []uint64, meta metav1.ListMeta) {
	writer := s.set.NewWriter()
	out := fmt.Appendf(make([]byte, 0, chunk+64<<10), `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q`, meta.ResourceVersion)
	if meta.Continue != "" {
		out = fmt.Appendf(out, `,"continue":%q,"remainingItemCount":%d`, meta.Continue, *meta.RemainingItemCount)
	}
	out = append(out, `},"items":[`...)
	for i := from; i < to; i++ {
		if i > from {
			out = append(out, ',')
		}
		out = writer.AppendJSONItem(out, i, versions[i-from])
		if len(out) >= chunk {
			if _, err := w.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
	}
	_, _ = w.Write(append(out, "]}\n"...))
}

// protoList writes `k8s\0`, and the list within a runtime.Unknown: its length comes first, and is known because that of
// each template is.
func (s *Server) protoList(w http.ResponseWriter, from, to int, versions []uint64, meta metav1.ListMeta) {
	writer := s.set.NewWriter()
	rawMeta, _ := meta.Marshal()
	length := 1 + uvarintLen(len(rawMeta)) + len(rawMeta)
	for i := from; i < to; i++ {
		item := s.set.ProtoItemLen(i)
		length += 1 + uvarintLen(item) + item
	}
	typeMeta, _ := (&runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}).Marshal()
	out := append(make([]byte, 0, chunk+64<<10), protoMagic...)
	out = field(out, 1, len(typeMeta))
	out = append(out, typeMeta...)
	out = field(out, 2, length)
	out = field(out, 1, len(rawMeta))
	out = append(out, rawMeta...)
	for i := from; i < to; i++ {
		out = field(out, 2, s.set.ProtoItemLen(i))
		out = writer.AppendProtoItem(out, i, versions[i-from])
		if len(out) >= chunk {
			if _, err := w.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
	}
	// Content encoding and type of the Unknown, both empty.
	out = field(out, 3, 0)
	_, _ = w.Write(field(out, 4, 0))
}

// field writes the head of a length-delimited field.
func field(out []byte, number, length int) []byte {
	return binary.AppendUvarint(append(out, byte(number<<3|2)), uint64(length))
}

func uvarintLen(n int) int { return len(binary.AppendUvarint(nil, uint64(n))) }
