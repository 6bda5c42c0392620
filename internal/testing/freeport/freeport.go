// Package freeport finds ports of loopback for the programs that tests and benchmarks start.
//
// A port that was asked of the kernel (":0") and closed again may be given to anybody before the program listens there:
// to an outgoing connection, or to a test of another process. The ports of this package lie below those that Linux
// gives out by itself, and a process keeps what it found until it ends.
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

// Redis Cluster's bus listens 10,000 above its port, and Linux gives out ports from 32,768 on.
const (
	first = 10_240
	ports = 11_000
	tries = 1000
)

// kept are the locks of the ports that this process found. They are released by its end.
var kept struct {
	sync.Mutex
	locks map[int]net.Listener
}

// Find finds a port that is free for TCP and UDP, as are those that lie as far above it as also says.
func Find(also ...int) (int, error) {
	for range tries {
		port := first + rand.IntN(ports)
		if keep(port) && allFree(port, also) {
			return port, nil
		}
	}
	return 0, errors.New("freeport: no free port was found in " + strconv.Itoa(tries) + " tries")
}

// FindAddr finds the loopback address of such a port.
func FindAddr() (string, error) {
	port, err := Find()
	return address(port), err
}

// Port finds such a port, or fails the test.
func Port(t testing.TB, also ...int) int {
	t.Helper()
	port, err := Find(also...)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Addr is the loopback address of such a port.
func Addr(t testing.TB) string {
	t.Helper()
	return address(Port(t))
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// keep takes a port for this process. On Linux other processes see it by an abstract socket that lives as long as
// the process; elsewhere each process knows its own only.
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
