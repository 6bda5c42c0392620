package redistest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/wait"
)

// FaultProxy is a proxy of a server. It has the fault that the test sets, or passes on the replies of the server. It
// ends with the test. Its methods may be called by any number of goroutines.
type FaultProxy struct {
	ln     net.Listener
	behind string
	fault  atomic.Pointer[Fault]
	ctx    context.Context // ends with the test

	mu    sync.Mutex // guards conns
	conns map[net.Conn]bool
	wait  sync.WaitGroup
}

// Fault answers one command on a client's connection. ask returns the reply of the server. After an error the
// connection is closed. The context ends with the test.
type Fault func(ctx context.Context, client io.Writer, ask func() ([]byte, error)) error

// FixedReply returns a fault that answers everything with the same bytes.
func FixedReply(answer string) Fault {
	return func(_ context.Context, client io.Writer, _ func() ([]byte, error)) error {
		_, err := io.WriteString(client, answer)
		return err
	}
}

// Silent lets the server execute commands, and never answers.
func Silent(_ context.Context, _ io.Writer, ask func() ([]byte, error)) error {
	_, err := ask()
	return err
}

// CutAfter returns a fault that sends n bytes of the true reply and closes the connection.
func CutAfter(n int) Fault {
	return func(_ context.Context, client io.Writer, ask func() ([]byte, error)) error {
		answer, err := ask()
		if err != nil {
			return err
		}
		if _, err := client.Write(answer[:min(n, len(answer))]); err != nil {
			return err
		}
		return io.EOF
	}
}

// At returns a fault that answers command n from now, counted from 1, with fault m, and all others as the server does.
func At(n int64, m Fault) Fault {
	var seen atomic.Int64
	return func(ctx context.Context, client io.Writer, ask func() ([]byte, error)) error {
		if seen.Add(1) == n {
			return m(ctx, client, ask)
		}
		return passThrough(ctx, client, ask)
	}
}

// passThrough answers as the server does.
func passThrough(_ context.Context, client io.Writer, ask func() ([]byte, error)) error {
	answer, err := ask()
	if err != nil {
		return err
	}
	_, err = client.Write(answer)
	return err
}

// SlowReply returns a fault that sends the true reply byte by byte, with a pause after each byte.
func SlowReply(pause time.Duration) Fault {
	return func(ctx context.Context, client io.Writer, ask func() ([]byte, error)) error {
		answer, err := ask()
		if err != nil {
			return err
		}
		for i := range answer {
			if _, err := client.Write(answer[i : i+1]); err != nil {
				return err
			}
			if !wait.For(ctx, pause) {
				return ctx.Err()
			}
		}
		return nil
	}
}

// StartFaultProxy starts a proxy of the server at the address behind.
func StartFaultProxy(t testing.TB, behind string) *FaultProxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: fault proxy: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &FaultProxy{ln: ln, behind: behind, ctx: ctx, conns: map[net.Conn]bool{}}
	f.wait.Go(f.accept)
	t.Cleanup(func() {
		cancel()
		_ = ln.Close() // it only listens
		f.closeAll()
		f.wait.Wait()
	})
	return f
}

// Addr returns host:port of the proxy.
func (f *FaultProxy) Addr() string { return f.ln.Addr().String() }

// Set makes the proxy answer with a fault, or as the server if m is nil. Replies that are on their way end with the
// fault in which they began.
func (f *FaultProxy) Set(m Fault) {
	if m == nil {
		f.fault.Store(nil)
		return
	}
	f.fault.Store(&m)
}

// Forget makes the proxy ignore the present connections, as a firewall that lost its table does: they stay open, and
// nothing that is sent on them is read. New connections are not affected.
func (f *FaultProxy) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		f.conns[c] = true
	}
}

func (f *FaultProxy) accept() {
	for {
		client, err := f.ln.Accept()
		if err != nil {
			return // closed
		}
		f.mu.Lock()
		f.conns[client] = false
		f.mu.Unlock()
		f.wait.Go(func() {
			_ = f.serve(client) // the client judges the end of its connection
			_ = client.Close()
			f.mu.Lock()
			delete(f.conns, client)
			f.mu.Unlock()
		})
	}
}

func (f *FaultProxy) closeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close() // serve sees it
	}
}

func (f *FaultProxy) serve(client net.Conn) error {
	server, err := net.Dial("tcp", f.behind)
	if err != nil {
		return err
	}
	defer server.Close()
	commands, answers := bufio.NewReader(client), bufio.NewReader(server)
	for {
		command, err := readValue(commands)
		if err != nil {
			return err
		}
		f.mu.Lock()
		deaf := f.conns[client]
		f.mu.Unlock()
		if deaf {
			continue
		}
		ask := func() ([]byte, error) {
			if _, err := server.Write(command); err != nil {
				return nil, err
			}
			return readValue(answers)
		}
		if err := f.answer(client, ask); err != nil {
			return err
		}
	}
}

func (f *FaultProxy) answer(client io.Writer, ask func() ([]byte, error)) error {
	if m := f.fault.Load(); m != nil {
		return (*m)(f.ctx, client, ask)
	}
	return passThrough(f.ctx, client, ask)
}

// readValue reads one value of RESP2 of any type as bytes.
func readValue(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if line[0] != '$' && line[0] != '*' {
		return line, nil
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err != nil {
		return nil, fmt.Errorf("redistest: length %q: %w", line, err)
	}
	if line[0] == '$' && n >= 0 {
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return append(line, text...), err
	}
	for ; line[0] == '*' && n > 0; n-- {
		item, err := readValue(r)
		if err != nil {
			return nil, err
		}
		line = append(line, item...)
	}
	return line, nil
}
