package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

var quiet = slog.New(slog.DiscardHandler)

func statsdSink(address string) (out, error) {
	s, err := statsd.NewSender(statsd.SenderConfig{
		Servers: []string{address}, Names: canon.Names{Prefix: "hp"}, Log: quiet,
		Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done() // like a name server that hangs
			return nil, ctx.Err()
		}},
	})
	if err != nil {
		return out{}, err
	}
	return out{s, s.Run, func() uint64 { return s.Stats().Dropped }}, nil
}

func kafkaSink(address string) (out, error) {
	p, err := kafka.NewProducer(kafka.ProducerConfig{
		Config: kafka.Config{Brokers: []string{address}, Topic: "counts", Namespace: "bench", Log: quiet},
	})
	if err != nil {
		return out{}, err
	}
	return out{p, p.Run, func() uint64 { return p.Stats().Dropped }}, nil
}

// The peers that need no process.
const (
	refusing = "nobody"
	nameless = "no name"
)

// peer is the other side, in a process of its own so that its memory is not counted as ours.
type peer struct {
	address string
	stop    func()
}

func startPeer(kind string) (peer, error) {
	switch kind {
	case refusing:
		port, err := freeport.Find()
		return peer{fmt.Sprintf("127.0.0.1:%d", port), func() {}}, err
	case nameless:
		return peer{"no-such-host.invalid:9092", func() {}}, nil
	}
	dir, err := os.MkdirTemp("", "sinks-")
	if err != nil {
		return peer{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return peer{}, errors.Join(err, os.RemoveAll(dir))
	}
	said, says, err := os.Pipe()
	if err != nil {
		return peer{}, errors.Join(err, os.RemoveAll(dir))
	}
	defer said.Close()
	p, err := process.Start(context.Background(), func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = says, os.Stderr },
		self, "-be", kind, "-at", filepath.Join(dir, "s"))
	_ = says.Close() // the process has its own
	if err != nil {
		return peer{}, errors.Join(err, os.RemoveAll(dir))
	}
	stop := func() {
		p.Stop()
		_ = os.RemoveAll(dir) // a temporary directory
	}
	address, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		stop()
		return peer{}, fmt.Errorf("the other side (%s) did not say where it is: %w", kind, err)
	}
	return peer{strings.TrimSpace(address), stop}, nil
}

// serve is the other side: it prints its address and runs until it is killed.
func serve(kind, path string) error {
	switch kind {
	case "udp":
		return takeDatagrams("udp", "127.0.0.1:0", 0)
	case "slow datagrams":
		return takeDatagrams("unixgram", path, 5*time.Millisecond)
	case "frozen datagrams":
		return takeDatagrams("unixgram", path, time.Hour)
	case "broker":
		return takeRecords(nil)
	case "slow broker":
		return takeRecords(func(c *kfake.Cluster) (kmsg.Response, error, bool) {
			c.SleepControl(func() { time.Sleep(200 * time.Millisecond) })
			return nil, nil, false
		})
	case "frozen broker":
		return takeRecords(func(*kfake.Cluster) (kmsg.Response, error, bool) { return nil, nil, true })
	case "mute":
		return takeConnections()
	}
	return fmt.Errorf("-be %q: no such side", kind)
}

// takeDatagrams reads datagrams, with a pause after each.
func takeDatagrams(network, address string, pause time.Duration) error {
	conn, err := net.ListenPacket(network, address)
	if err != nil {
		return err
	}
	if network == "unixgram" {
		address = "unix:" + address
	} else {
		address = conn.LocalAddr().String()
	}
	fmt.Println(address)
	for buf := make([]byte, 1<<16); ; time.Sleep(pause) {
		if _, _, err := conn.ReadFrom(buf); err != nil {
			return err
		}
	}
}

// takeRecords runs a Kafka broker until the process ends, and prints its address. produce, if it is not nil, handles
// each write.
func takeRecords(produce func(*kfake.Cluster) (kmsg.Response, error, bool)) error {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, "counts"))
	if err != nil {
		return err
	}
	if produce != nil {
		c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			return produce(c)
		})
	}
	fmt.Println(c.ListenAddrs()[0])
	select {}
}

// takeConnections accepts connections, and sends nothing.
func takeConnections() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
}
