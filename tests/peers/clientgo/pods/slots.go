// Package pods makes realistic pods by the hundred thousand without marshalling each.
//
// A template is one pod, marshalled once in every form that is served, with markers where pods differ: names, UIDs,
// hashes, addresses, times. All markers of a kind are as wide as the values that take their place, in JSON and in
// protobuf, so that a pod is a copy of its template's bytes with the markers overwritten.
package pods

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// What differs from pod to pod.
type slot int

const (
	hash      slot = iota // pod-template-hash, as a ReplicaSet has it
	suffix                // end of the pod's name
	namespace             // one of Namespaces
	uid
	ownerUID
	version
	node
	rack
	podIP
	hostIP
	token    // end of the service account volume's name
	image    // digest
	checksum // of the configuration
	commit   // of the release
	network  // the CNI's id of the pod
	sent     // nanoseconds since the epoch when the event was sent
	container0
	container1
	container2
	created
	started
	ready
	changed
	slots
)

const firstTime = created

// Widths of the texts; a version has ten digits from the first on.
var widths = [...]int{
	hash: 10, suffix: 5, namespace: 12, uid: 36, ownerUID: 36, version: 10, node: 47, rack: 9, podIP: 14, hostIP: 14,
	token: 5, image: 64, checksum: 64, commit: 40, network: 64, sent: 20, container0: 64, container1: 64, container2: 64,
}

// marker is a text that stands nowhere else in a template.
func marker(s slot) string {
	text := fmt.Sprintf("zq%02d", s)
	for len(text) < widths[s] {
		text += "z"
	}
	return text
}

// markerTime stands for a time; no pod is that old.
func markerTime(s slot) time.Time {
	return time.Date(2001, 1, 1, 0, 0, int(s), 0, time.UTC)
}

// protoTime is a time as protobuf has it: field 1, and five bytes of varint until the year 3058.
func protoTime(dst []byte, at time.Time) []byte {
	return binary.AppendUvarint(append(dst, 0x08), uint64(at.Unix()))
}

type patch struct {
	offset int
	slot   slot
}

// form is a template in one encoding.
type form struct {
	bytes   []byte
	patches []patch
	proto   bool
}

func newForm(encoded []byte, proto bool) form {
	f := form{bytes: encoded, proto: proto}
	for s := slot(0); s < slots; s++ {
		wanted := []byte(nil)
		switch {
		case s < firstTime:
			wanted = []byte(marker(s))
		case proto:
			wanted = protoTime(nil, markerTime(s))
		default:
			wanted = []byte(markerTime(s).Format(time.RFC3339))
		}
		for from := 0; ; {
			at := bytes.Index(encoded[from:], wanted)
			if at < 0 {
				break
			}
			f.patches = append(f.patches, patch{from + at, s})
			from += at + len(wanted)
		}
	}
	return f
}

// count tells how often each slot occurs.
func (f form) count() (counts [slots]int) {
	for _, p := range f.patches {
		counts[p.slot]++
	}
	return counts
}

// append writes one pod.
func (f form) append(dst []byte, v *values) []byte {
	base := len(dst)
	dst = append(dst, f.bytes...)
	for _, p := range f.patches {
		value := v.text[p.slot]
		if f.proto && p.slot >= firstTime {
			value = v.proto[p.slot-firstTime]
		}
		copy(dst[base+p.offset:], value)
	}
	return dst
}
