package spoe

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/wait"
)

// Bounds of one connection. HAProxy keeps as many connections as it has threads, and more while it is busy.
const (
	maxCalls = 256 // under way on one connection; beyond it the connection is not read
	// A call counts once for each of these bytes, so that the calls under way hold 1 MiB.
	callBytes = 4 << 10
	// The messages of one frame. A message of two bytes takes a hundred times as many in memory.
	maxMessages  = 100
	helloTimeout = 5 * time.Second
	firstTimeout = 10 * time.Second // for the first call; HAProxy connects when it has a call
	idleTimeout  = 5 * time.Minute  // for the next call; HAProxy connects again
	writeTimeout = 5 * time.Second
)

// Gate decides about requests. *gate.Gate is one.
type Gate interface {
	DecideForGateway(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict
}

type Config struct {
	// Gate is required.
	Gate Gate
	// Log receives peers that do not speak the protocol; nil discards them.
	Log *slog.Logger
}

// Agent answers HAProxy. Any number of goroutines may use it; [Agent.Serve] runs once.
type Agent struct {
	gate Gate
	log  *slog.Logger

	connections                               sync.WaitGroup
	checks, denied, malformed, protocolErrors atomic.Uint64
}

// Stats are the counters of an agent since it was built.
type Stats struct {
	Checks         uint64 `metric:"hotparam_spoe_checks_total" help:"Requests that HAProxy asked about."`
	Denied         uint64 `metric:"hotparam_spoe_denied_total" help:"Requests of HAProxy that were denied."`
	Malformed      uint64 `metric:"hotparam_spoe_malformed_total" help:"Malformed messages of HAProxy; they are denied."`
	ProtocolErrors uint64 `metric:"hotparam_spoe_protocol_errors_total" help:"Connections ended because their peer did not speak the protocol."`
}

// New returns an Agent. It panics without a gate.
func New(cfg Config) *Agent {
	if cfg.Gate == nil {
		panic("spoe: New: no gate")
	}
	return &Agent{log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), gate: cfg.Gate}
}

func (a *Agent) Stats() Stats {
	return Stats{
		Checks: a.checks.Load(), Denied: a.denied.Load(), Malformed: a.malformed.Load(),
		ProtocolErrors: a.protocolErrors.Load(),
	}
}

// Serve answers on ln until ctx ends. It then answers calls under way, closes the connections, and closes ln.
func (a *Agent) Serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	defer a.connections.Wait()
	defer ln.Close()
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			if !isTemporary(err) {
				return err
			}
			wait.For(ctx, 10*time.Millisecond) // too many open files: other connections may be closed meanwhile
			continue
		}
		a.connections.Go(func() {
			c := connection{agent: a, conn: conn, calls: make(chan struct{}, maxCalls)}
			c.serve(ctx)
		})
	}
}

func isTemporary(err error) bool {
	t, ok := err.(interface{ Temporary() bool })
	return ok && t.Temporary()
}

type connection struct {
	agent *Agent
	conn  net.Conn
	calls chan struct{} // holds a value for each callBytes of the calls under way

	mostFrame int // the longest frame in bytes that the peer accepts

	underWay sync.WaitGroup
	mu       sync.Mutex // guards writing
}

// serve greets and answers until the peer leaves or ctx ends.
func (c *connection) serve(ctx context.Context) {
	defer c.conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Now()) })
	defer stop()
	r := bufio.NewReader(c.conn)
	_ = c.conn.SetReadDeadline(time.Now().Add(helloTimeout))
	f, buf, err := readFrame(r, nil)
	if err == nil && f.kind != frameHello {
		err = errFrame
	}
	if err != nil {
		c.sendDisconnect(ctx, err)
		return
	}
	more, err := c.answerHello(f.payload)
	if err != nil {
		c.sendDisconnect(ctx, err)
	}
	if !more {
		return
	}
	for timeout := firstTimeout; ctx.Err() == nil; timeout = idleTimeout {
		_ = c.conn.SetReadDeadline(time.Now().Add(timeout))
		if ctx.Err() != nil { // it may have ended before the deadline was set again
			break
		}
		if f, buf, err = readFrame(r, buf); err != nil {
			break
		}
		if f.kind == frameDisconnect {
			break
		}
		if f.kind != frameNotify || f.flags&flagFin == 0 {
			err = errFrame
			break
		}
		if err = c.answerNotify(ctx, f); err != nil {
			break
		}
	}
	c.underWay.Wait()
	c.sendDisconnect(ctx, err)
}

// sendDisconnect sends the peer the reason why the connection ends.
func (c *connection) sendDisconnect(ctx context.Context, err error) {
	code, why := uint32(0), "normal"
	switch { // the codes are in the specification's list
	case errors.Is(err, errFrame):
		code, why = 4, "invalid frame"
	case errors.Is(err, errFrameSize):
		code, why = 9, "max-frame-size too big or too small"
	}
	if code != 0 {
		c.agent.log.WarnContext(ctx, "spoe: a peer does not speak the protocol and is disconnected", "why", why,
			"peer", c.conn.RemoteAddr().String(), "count", c.agent.protocolErrors.Add(1))
	}
	b := appendUint32(appendText(nil, "status-code"), code)
	b = appendString(appendText(b, "message"), why)
	c.writeFrame(frameAgentDisconnect, 0, 0, b)
}

// answerHello answers the greeting, and reports whether more will follow. A health check only greets.
func (c *connection) answerHello(payload []byte) (more bool, err error) {
	size, healthcheck := uint64(maxFrame), false
	for d := (decoder{payload, nil}); len(d.b) > 0; {
		switch name, v := d.readText(), d.readValue(); name {
		case "max-frame-size":
			size = min(size, v.number)
		case "healthcheck":
			healthcheck = v.number != 0
		}
	}
	if size < minFrame {
		return false, errFrameSize
	}
	c.mostFrame = int(size)
	b := appendString(appendText(nil, "version"), "2.0")
	b = appendUint32(appendText(b, "max-frame-size"), uint32(size))
	b = appendString(appendText(b, "capabilities"), "pipelining")
	return c.writeFrame(frameAgentHello, 0, 0, b) && !healthcheck, nil
}

// answerNotify decides the checks of one frame, in a goroutine of its own because a verdict may take as long as Redis.
func (c *connection) answerNotify(ctx context.Context, f frame) error {
	checks, err := decodeMessages(f.payload)
	if err != nil {
		return err
	}
	size := 1 + len(f.payload)/callBytes
	for range size { // this goroutine alone adds them, so that two calls never wait for each other
		c.calls <- struct{}{}
	}
	c.underWay.Go(func() {
		defer func() {
			for range size {
				<-c.calls
			}
		}()
		var n answer
		for i := range checks {
			c.agent.decideCheck(ctx, &n, &checks[i])
		}
		var b []byte
		if len(checks) > 0 {
			b = n.appendActions(nil, c.mostFrame-frameHead)
		}
		c.writeFrame(frameAck, f.stream, f.id, b)
	})
	return nil
}

func (c *connection) writeFrame(kind byte, stream, id uint64, payload []byte) bool {
	b := appendFrame(make([]byte, 0, len(payload)+32), kind, stream, id, payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.conn.Write(b)
	if err != nil {
		_ = c.conn.Close() // bytes after half a frame mean nothing
	}
	return err == nil
}
