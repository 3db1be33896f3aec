package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
)

// Linux gives ports of 32768–60999 to outgoing connections, any of which could take the API server's port while that
// is being restarted; so it is taken from below.
const (
	lowestPort  = 15000
	highestPort = 29999
)

// reservePort keeps a loopback port for this process until it ends, also while the API server is down: the socket is
// bound but never listens, so connections are refused, while a listener with SO_REUSEADDR (as Go's are) may
// still bind the same port beside it. With port 0 one that nobody has bound is picked.
func reservePort(port int) (int, error) {
	if port != 0 {
		// Old connections in TIME_WAIT must not refuse a port that the caller insists on.
		if err := bindPort(port, true); err != nil {
			return 0, fmt.Errorf("reserving port %d: %w", port, err)
		}
		return port, nil
	}
	for range 200 {
		port = lowestPort + rand.IntN(highestPort-lowestPort+1)
		err := bindPort(port, false)
		if err == nil {
			return port, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, fmt.Errorf("reserving port %d: %w", port, err)
		}
	}
	return 0, fmt.Errorf("no free port found between %d and %d", lowestPort, highestPort)
}

// bindPort binds a socket which stays open as long as this process. Without reuseFirst the bind fails for a port that
// another reservation holds; the option is set afterwards in any case, for the API server's listener.
func bindPort(port int, reuseFirst bool) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	reuse := func() error { return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) }
	if reuseFirst {
		err = reuse()
	}
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil && !reuseFirst {
		err = reuse()
	}
	if err != nil {
		_ = syscall.Close(fd)
	}
	return err
}
