package replay

import (
	"time"
)

// Emit changes pods at a rate until so many events were sent. All pods change in turn, in an order that has nothing to
// do with the list's.
func (s *Server) Emit(rate float64, count int) {
	if s.set.Len() == 0 {
		return
	}
	stride := strideOf(s.set.Len())
	begin, pod := time.Now(), 0
	for n := range count {
		due := begin.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		pod = (pod + stride) % s.set.Len()
		s.mu.Lock()
		s.newest++
		s.versions[pod] = s.newest
		e := event{pod: pod, version: s.newest, sent: time.Now().UnixNano()}
		for w := range s.watches {
			select {
			case w.events <- e:
			default:
				// A client that is so far behind has lost its watch.
				close(w.expired)
				delete(s.watches, w)
			}
		}
		s.mu.Unlock()
	}
}

// Expire ends all watches because their version is gone, after a share of the pods was changed unseen, so that clients
// list again.
func (s *Server) Expire(percent int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.versions {
		if i%100 < percent {
			s.newest++
			s.versions[i] = s.newest
		}
	}
	s.newest++
	s.oldest = s.newest
	ended := len(s.watches)
	for w := range s.watches {
		close(w.expired)
		delete(s.watches, w)
	}
	return ended
}

// Snapshot is the figures so far.
func (s *Server) Snapshot() map[string]int64 {
	st := &s.stats
	return map[string]int64{
		"json_lists": st.JSONLists.Load(), "proto_lists": st.ProtoLists.Load(), "json_watches": st.JSONWatches.Load(),
		"proto_watches": st.ProtoWatches.Load(), "watch_lists": st.WatchLists.Load(), "pages": st.Pages.Load(), "open": st.Open.Load(),
	}
}

// strideOf is a step that reaches every pod before any comes again.
func strideOf(count int) int {
	stride := count*61/100 + 1
	for gcd(stride, count) != 1 {
		stride++
	}
	return stride
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
