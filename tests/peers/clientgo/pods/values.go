package pods

import (
	"fmt"
	"time"
)

// values are what one pod has in the slots.
type values struct {
	text  [slots][]byte
	proto [slots - firstTime][]byte
}

// Everything is a function of the seed and the number of the pod or of its owner, so that the same pods come out of
// every process.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

type random uint64

func (r *random) next() uint64 {
	*r = random(mix(uint64(*r)))
	return uint64(*r)
}

func (r *random) upTo(n int) int { return int(r.next() % uint64(n)) }

// The characters of Kubernetes' own random names.
const nameChars = "bcdfghjklmnpqrstvwxz2456789"
const hexChars = "0123456789abcdef"

func (r *random) text(dst []byte, chars string, width int) []byte {
	dst = dst[:0]
	for range width {
		dst = append(dst, chars[r.next()%uint64(len(chars))])
	}
	return dst
}

func (r *random) hex(dst []byte, width int) []byte {
	dst = dst[:0]
	for len(dst) < width {
		bits := r.next()
		for n := 0; n < 16 && len(dst) < width; n++ {
			dst = append(dst, hexChars[bits&15])
			bits >>= 4
		}
	}
	return dst
}

func (r *random) uid(dst []byte) []byte {
	dst = r.hex(dst, 36)
	for _, dash := range []int{8, 13, 18, 23} {
		dst[dash] = '-'
	}
	dst[14] = '4'
	return dst
}

// octet has three digits always.
func octet(n int) int { return 100 + n%156 }

// fill computes the values of pod i.
func (s *Set) fill(v *values, i int, rv uint64, sentAt int64) {
	owner := i / Replicas
	own := random(mix(s.seed ^ uint64(owner)<<1))
	v.text[hash] = own.text(v.text[hash], nameChars, widths[hash])
	v.text[ownerUID] = own.uid(v.text[ownerUID])
	v.text[image] = own.hex(v.text[image], widths[image])
	v.text[checksum] = own.hex(v.text[checksum], widths[checksum])
	v.text[commit] = own.hex(v.text[commit], widths[commit])
	// Sorted by namespace, as a list is.
	space := owner * Namespaces / (s.count/Replicas + 1)
	v.text[namespace] = fmt.Appendf(v.text[namespace][:0], "team-%02d-prod", space)

	pod := random(mix(s.seed ^ uint64(i)<<1 ^ 1))
	v.text[suffix] = pod.text(v.text[suffix], nameChars, widths[suffix])
	v.text[token] = pod.text(v.text[token], nameChars, widths[token])
	v.text[uid] = pod.uid(v.text[uid])
	for _, id := range []slot{network, container0, container1, container2} {
		v.text[id] = pod.hex(v.text[id], widths[id])
	}
	host := pod.upTo(s.nodes)
	a, b, c := octet(host/156/156), octet(host/156), octet(host)
	v.text[node] = fmt.Appendf(v.text[node][:0], "ip-10-%d-%d-%d.eu-central-1.compute.internal", a, b, c)
	v.text[hostIP] = fmt.Appendf(v.text[hostIP][:0], "10.%d.%d.%d", a, b, c)
	v.text[rack] = fmt.Appendf(v.text[rack][:0], "rack-%04d", pod.upTo(s.racks))
	v.text[podIP] = fmt.Appendf(v.text[podIP][:0], "10.%d.%d.%d", octet(pod.upTo(156)), octet(pod.upTo(156)), octet(pod.upTo(156)))

	v.text[version] = fmt.Appendf(v.text[version][:0], "%010d", rv)
	v.text[sent] = fmt.Appendf(v.text[sent][:0], "%020d", sentAt)
	born := int64(1_760_000_000) + int64(own.upTo(20_000_000)) + int64(pod.upTo(600))
	up := born + int64(1+pod.upTo(40))
	now := up + int64(1+pod.upTo(60)) + int64(rv-FirstVersion)
	for n, seconds := range []int64{born, up, up + int64(1+pod.upTo(30)), now} {
		at := time.Unix(seconds, 0).UTC()
		v.text[firstTime+slot(n)] = at.AppendFormat(v.text[firstTime+slot(n)][:0], time.RFC3339)
		v.proto[n] = protoTime(v.proto[n][:0], at)
	}
}
