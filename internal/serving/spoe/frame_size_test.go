package spoe

import (
	"bufio"
	"context"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// greetedPeer is a peer that named a size of frames. Its agent answers every request by a verdict.
func greetedPeer(t *testing.T, size uint32, v *hottype.Verdict) *peer {
	a := New(Config{Gate: gateFunc(func(*hottype.Request) hottype.Verdict { return *v })})
	ours, theirs := net.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := connection{agent: a, conn: ours, calls: make(chan struct{}, maxCalls)}
		c.serve(ctx)
	}()
	t.Cleanup(func() { stop(); _ = theirs.Close(); <-done })
	p := &peer{t, theirs, bufio.NewReader(theirs)}
	b := appendString(appendText(nil, "supported-versions"), "2.0")
	p.send(frameHello, 0, 0, appendString(appendText(appendUint32(appendText(b, "max-frame-size"), size),
		"capabilities"), "pipelining"))
	return p
}

// A frame is never longer than the peer allows, for any verdict, number of messages and size. It always has the
// variables by which the peer decides.
func TestAgent_WritesNoFrameLongerThanThePeerAllows(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.Just(strings.Repeat("%21", 20_000)),
		rapid.Just(strings.Repeat("\x00", 300)))
	verdict := rapid.Custom(func(t *rapid.T) hottype.Verdict {
		return hottype.Verdict{Allowed: rapid.Bool().Draw(t, "allowed"),
			Reason: rapid.SampledFrom([]hottype.Reason{hottype.ReasonHot, hottype.ReasonBlocked}).Draw(t, "reason"),
			Rule:   text.Draw(t, "rule"), Key: hottype.Key("topic?id=" + text.Draw(t, "key")),
			Limit: rapid.Int64().Draw(t, "limit"), Window: time.Duration(rapid.Int64().Draw(t, "window")),
			RetryAfter: time.Duration(rapid.Int64Min(1).Draw(t, "retry"))}
	})
	all := t
	rapid.Check(t, func(t *rapid.T) {
		v := verdict.Draw(t, "verdict")
		size := rapid.Uint32Range(minFrame, 2*maxFrame).Draw(t, "size")
		p := greetedPeer(all, size, &v)
		p.receive()
		one := notification("GET", "/", "-")
		messages := strings.Repeat(string(one), rapid.IntRange(1, 3).Draw(t, "messages"))
		p.send(frameNotify, rapid.Uint64().Draw(t, "stream"), rapid.Uint64().Draw(t, "id"), []byte(messages))
		f, whole, err := readFrame(p.r, nil)
		if err != nil || len(whole) > int(size) {
			t.Fatalf("a frame of %d bytes, the peer named %d: %v", len(whole), size, err)
		}
		got := variables(all, f.payload)
		if got["allowed"] != map[bool]string{true: "1", false: "0"}[v.Allowed] || got["reason"] != v.Reason.String() ||
			!v.Allowed && (got["retry_after"] == "" || got["retry_ms"] == "") {
			t.Fatalf("%d bytes: %v", size, got)
		}
	})
}

// A short frame lacks only the last variables, and a long frame has all.
func TestAgent_LeavesOutTheLastVariables(t *testing.T) {
	t.Parallel()
	v := hottype.Verdict{Reason: hottype.ReasonHot, Rule: "topic", Key: hottype.Key("topic?id=" + strings.Repeat("a", 150)),
		Limit: 9, Window: time.Second, RetryAfter: time.Second}
	for size, names := range map[uint32]int{256: 7, 16380: 8} {
		p := greetedPeer(t, size, &v)
		p.receive()
		p.send(frameNotify, 1, 1, notification("GET", "/", "-"))
		got := variables(t, p.receive().payload)
		if _, key := got["key"]; len(got) != names || key != (size > 256) {
			t.Errorf("%d bytes: %v", size, maps.Clone(got))
		}
	}
}

// A peer whose frames hold no verdict is disconnected with the reason of the specification.
func TestAgent_DisconnectsPeersOfTooShortFrames(t *testing.T) {
	t.Parallel()
	for _, size := range []uint32{0, 1, minFrame - 1} {
		p := greetedPeer(t, size, &hottype.Verdict{})
		if f := p.receive(); f.kind != frameAgentDisconnect || pairs(f.payload)["status-code"].number != 9 {
			t.Errorf("%d: %+v", size, f)
		}
	}
}
