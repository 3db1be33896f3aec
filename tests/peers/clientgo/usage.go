package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what a client says about itself; all clients of the benchmark have the same.
type usage struct {
	// Processor time of the process, user and system.
	CPU float64 `json:"cpu_us"`
	// Since the start of the process' own work.
	Wall float64 `json:"wall_us"`
	RSS  int     `json:"rss_kb"`
	PSS  int     `json:"pss_kb"`
	Peak int     `json:"peak_kb"`
	// In the store.
	Objects int `json:"objects"`
	// Since the last reset, and how long they took to come.
	Events int     `json:"events"`
	P50    float64 `json:"p50_us"`
	P99    float64 `json:"p99_us"`
	P999   float64 `json:"p999_us"`
}

var begun = time.Now()

func cpuMicros() float64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &at); err != nil {
		panic(err)
	}
	return float64(at.Nano()) / 1e3
}

// kilobytes reads a line of a file of /proc/self.
func kilobytes(file, name string) int {
	raw, err := os.ReadFile("/proc/self/" + file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			var kb int
			_, _ = fmt.Sscan(rest, &kb)
			return kb
		}
	}
	return 0
}

// latencies are those of the events since the last reset.
type latencies struct {
	mu     sync.Mutex
	micros []float64
}

// came notes an event that was sent at a time, as its annotation says.
func (l *latencies) came(sent string) {
	now := time.Now().UnixNano()
	var at int64
	for _, digit := range sent {
		at = at*10 + int64(digit-'0')
	}
	if at == 0 {
		return
	}
	l.mu.Lock()
	l.micros = append(l.micros, float64(now-at)/1e3)
	l.mu.Unlock()
}

func (l *latencies) report(into *usage) {
	l.mu.Lock()
	sorted := slices.Clone(l.micros)
	l.mu.Unlock()
	slices.Sort(sorted)
	into.Events = len(sorted)
	if len(sorted) > 0 {
		into.P50, into.P99 = sorted[len(sorted)/2], sorted[len(sorted)*99/100]
		into.P999 = sorted[len(sorted)*999/1000]
	}
}

// converse answers the commands of the benchmark until it says quit:
//
//	usage   how the process fares
//	reset   forget the peak and the events
//	trim    give freed memory back to the system
func converse(events *latencies, objects func() int) error {
	now := func() usage {
		u := usage{CPU: cpuMicros(), Wall: float64(time.Since(begun).Microseconds()), Objects: objects(), Peak: kilobytes("status", "VmHWM")}
		events.report(&u)
		u.RSS, u.PSS = kilobytes("smaps_rollup", "Rss"), kilobytes("smaps_rollup", "Pss")
		return u
	}
	if err := say(now()); err != nil {
		return err
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		switch line := commands.Text(); line {
		case "usage":
		case "trim":
			debug.FreeOSMemory()
		case "reset":
			if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
				return err
			}
			events.mu.Lock()
			events.micros = events.micros[:0]
			events.mu.Unlock()
		case "quit":
			return nil
		default:
			return fmt.Errorf("unknown command %q", line)
		}
		if err := say(now()); err != nil {
			return err
		}
	}
	return commands.Err()
}
