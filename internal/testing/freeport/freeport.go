// Package freeport finds ports of loopback for the programs that tests and benchmarks start.
//
// A port that was asked of the kernel (":0") and closed again may be taken before the program listens there, by an
// outgoing connection or by a test of another process. The ports of this package are below those that Linux assigns by
// itself, and a process keeps the ports that it found until it ends.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// The bus of Redis Cluster listens 10,000 above its port, and Linux assigns ports from 32,768 on.
const (
	first = 10_240
	ports = 11_000
	tries = 1000
)

// kept holds the locks of the ports that this process found. They are released when it ends.
var kept struct {
	sync.Mutex
	locks map[int]net.Listener
}

// Find returns a port that is free for TCP and UDP. The ports above it by the distances in also are free too.
func Find(also ...int) (int, error) {
	for range tries {
		port := first + rand.IntN(ports)
		if keep(port) && allFree(port, also) {
			return port, nil
		}
	}
	return 0, errors.New("freeport: no free port was found in " + strconv.Itoa(tries) + " tries")
}

// FindAddr returns the loopback address of such a port.
func FindAddr() (string, error) {
	port, err := Find()
	return address(port), err
}

// Port returns such a port, or fails the test.
func Port(t testing.TB, also ...int) int {
	t.Helper()
	port, err := Find(also...)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Addr returns the loopback address of such a port.
func Addr(t testing.TB) string {
	t.Helper()
	return address(Port(t))
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// keep takes a port for this process. On Linux other processes see it by an abstract socket that lives as long as the
// process. Elsewhere each process knows only its own ports.
func keep(port int) bool {
	kept.Lock()
	defer kept.Unlock()
	if _, ok := kept.locks[port]; ok {
		return false
	}
	var lock net.Listener
	if runtime.GOOS == "linux" {
		var err error
		name := fmt.Sprintf("@hotparam-port-%d", port)
		if lock, err = new(net.ListenConfig).Listen(context.Background(), "unix", name); err != nil {
			return false
		}
	}
	if kept.locks == nil {
		kept.locks = make(map[int]net.Listener)
	}
	kept.locks[port] = lock
	return true
}

func allFree(port int, also []int) bool {
	for _, above := range append([]int{0}, also...) {
		if !free(address(port + above)) {
			return false
		}
	}
	return true
}

func free(addr string) bool {
	var config net.ListenConfig
	tcp, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return false
	}
	defer tcp.Close() // nothing was accepted
	udp, err := config.ListenPacket(context.Background(), "udp", addr)
	if err != nil {
		return false
	}
	return udp.Close() == nil
}
