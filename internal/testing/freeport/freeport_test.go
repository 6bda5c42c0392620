package freeport

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
)

func TestNoPortIsGivenTwice(t *testing.T) {
	seen := map[int]bool{}
	for range 500 {
		port := Port(t)
		if seen[port] {
			t.Fatalf("port %d was given twice", port)
		}
		if port < first || port >= first+ports {
			t.Fatalf("port %d is outside of the range", port)
		}
		seen[port] = true
	}
}

func TestOccupiedPortsAreNotGiven(t *testing.T) {
	port := Port(t, 10_000)
	bus, err := net.Listen("tcp", address(port+10_000))
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	if !allFree(port, nil) || allFree(port, []int{10_000}) {
		t.Error("the port above is taken, and the port alone is free")
	}
	udp, err := net.ListenPacket("udp", address(port))
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	if allFree(port, nil) {
		t.Error("a port that is taken for UDP counts as free")
	}
}

// Another process, which is this test program again, cannot keep the ports that this process keeps.
func TestOtherProcessesSeeWhatIsKept(t *testing.T) {
	if asked := os.Getenv("FREEPORT_ASKED"); asked != "" {
		port, _ := strconv.Atoi(asked)
		if keep(port) {
			t.Fatal("given")
		}
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("there are no abstract sockets on " + runtime.GOOS)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "TestOtherProcessesSeeWhatIsKept")
	cmd.Env = append(os.Environ(), "FREEPORT_ASKED="+strconv.Itoa(Port(t)))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
