package spoe

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

type gateFunc func(r *hottype.Request) hottype.Verdict

func (f gateFunc) DecideForGateway(_ context.Context, _ time.Time, r *hottype.Request) hottype.Verdict {
	return f(r)
}

// notification is a message as deploy/haproxy/hotparam.spoe makes HAProxy send it.
func notification(method, uri, ip string) []byte {
	b := append(appendText(nil, "check"), 4)
	b = appendString(appendText(b, "method"), method)
	b = appendString(appendText(b, "uri"), uri)
	b = appendString(appendText(b, "ip"), ip)
	headers := appendText(appendText(nil, "User-Agent"), "bot")
	headers = appendText(appendText(headers, "host"), "news.example")
	headers = append(headers, 0, 0)
	return appendText(append(appendText(b, "headers"), typeBinary), string(headers))
}

// peer is HAProxy.
type peer struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

// dial connects to an agent and greets it.
func dial(t *testing.T, a *Agent) *peer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx, ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	})
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &peer{t, conn, bufio.NewReader(conn)}
}

func (p *peer) send(kind byte, stream, id uint64, payload []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(appendFrame(nil, kind, stream, id, payload)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) receive() frame {
	p.t.Helper()
	f, _, err := readFrame(p.r, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// greet sends the greeting and returns the agent's values.
func (p *peer) greet(more ...byte) map[string]value {
	b := appendString(appendText(nil, "supported-versions"), "2.0")
	b = appendUint32(appendText(b, "max-frame-size"), 16380)
	b = appendString(appendText(b, "capabilities"), "pipelining,async")
	p.send(frameHello, 0, 0, append(b, more...))
	f := p.receive()
	if f.kind != frameAgentHello {
		p.t.Fatalf("frame %d", f.kind)
	}
	return pairs(f.payload)
}

func pairs(payload []byte) map[string]value {
	out := map[string]value{}
	for d := (decoder{payload, nil}); len(d.b) > 0; {
		name := d.readText()
		out[name] = d.readValue()
	}
	return out
}

// variables are the actions of an acknowledgement.
func variables(t *testing.T, payload []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for d := (decoder{payload, nil}); len(d.b) > 0; {
		if action, n, scope := d.readByte(), d.readByte(), d.readByte(); action != 1 || n != 3 || scope != 2 {
			t.Fatalf("action %d with %d arguments, scope %d", action, n, scope)
		}
		name, v := d.readText(), d.readValue()
		if out[name] = v.text; v.kind == typeBool {
			out[name] = fmt.Sprint(v.number)
		}
	}
	return out
}

func TestAgent_AnswersEachCheck(t *testing.T) {
	t.Parallel()
	a := New(Config{Gate: gateFunc(func(r *hottype.Request) hottype.Verdict {
		if r.Method != "PUT" || r.Host != "news.example" || r.Client.String() != "192.0.2.7" ||
			r.Header.Get("user-agent") != "bot" || !r.FromProxy {
			t.Errorf("%+v", r)
		}
		v := hottype.Verdict{Allowed: true, Reason: hottype.ReasonHot, Rule: "topic", Key: "topic?id=42", Limit: 9,
			Window: time.Second, Pass: &hottype.Pass{Name: "hotparam_0a1b", Value: "pass"}}
		if r.Target == "/topic?id=hot" {
			v.Allowed, v.RetryAfter = false, 1500*time.Millisecond
		}
		return v
	})})
	p := dial(t, a)
	hello := p.greet()
	if hello["version"].text != "2.0" || hello["max-frame-size"].number != 16380 ||
		hello["capabilities"].text != "pipelining" {
		t.Errorf("%+v", hello)
	}
	allowed := map[string]string{
		"allowed": "1", "reason": "hot", "rule": "topic", "key": "topic?id=42", "ratelimit": `"topic";r=0;t=0`,
		"ratelimit_policy": `"topic";q=9;w=1`,
	}
	denied := maps.Clone(allowed)
	denied["allowed"], denied["retry_after"], denied["ratelimit"] = "0", "2", `"topic";r=0;t=2`
	denied["retry_ms"] = "1500"
	denied["set_cookie"] = "hotparam_0a1b=pass; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax"
	secure, overTLS := maps.Clone(denied), append(appendText(nil, "tls"), typeBool|flagTrue)
	secure["set_cookie"] = "__Host-" + denied["set_cookie"] + "; Secure"
	for stream, tc := range map[uint64]struct {
		uri  string
		more []byte // a further argument
		want map[string]string
	}{
		1: {"/topic?id=42", nil, allowed}, 300: {"/topic?id=hot", nil, denied}, 301: {"/topic?id=hot", overTLS, secure},
	} {
		message := append(notification("PUT", tc.uri, "192.0.2.7"), tc.more...)
		if tc.more != nil {
			message[len("\x05check")]++ // arguments
		}
		p.send(frameNotify, stream, 7, message)
		f := p.receive()
		if f.kind != frameAck || f.stream != stream || f.id != 7 {
			t.Fatalf("%+v", f)
		}
		if got := variables(t, f.payload); !maps.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.uri, got, tc.want)
		}
	}
	p.send(frameDisconnect, 0, 0, nil)
	if f := p.receive(); f.kind != frameAgentDisconnect || pairs(f.payload)["status-code"].number != 0 {
		t.Errorf("%+v", f)
	}
	if st := a.Stats(); st.Checks != 3 || st.Denied != 2 || st.Malformed != 0 || st.ProtocolErrors != 0 {
		t.Errorf("%+v", st)
	}
}

// A message that describes no request is denied; the target of an absolute URI without a path is one.
func TestAgent_DeniesMessagesWithoutARequest(t *testing.T) {
	t.Parallel()
	var asked string
	a := New(Config{Gate: gateFunc(func(r *hottype.Request) hottype.Verdict {
		asked = r.Host + " " + r.Target
		return hottype.Verdict{Allowed: true}
	})})
	p := dial(t, a)
	p.greet()
	uri := func(message string, v ...byte) []byte {
		return append(appendText(append(appendText(nil, message), 1), "uri"), v...)
	}
	named := appendString(appendText(append(appendText(nil, "check"), 2), "host"), "other.example")
	for i, tc := range []struct {
		message []byte
		asked   string
	}{
		{uri("check", appendString(nil, "/topic?id=1")...), " /topic?id=1"},
		{uri("check", appendString(nil, "?id=1")...), " /?id=1"},
		{uri("check", appendString(nil, "")...), " /"},
		{uri("check", appendString(nil, "*")...), " *"},
		{append(named, uri("", appendString(nil, "/")...)[2:]...), "other.example /"},
		{uri("check", typeNull), ""},
		{uri("other", appendString(nil, "/")...), ""},
		{append(appendText(nil, "check"), 0), ""},
	} {
		asked = ""
		p.send(frameNotify, uint64(i), 1, tc.message)
		got := variables(t, p.receive().payload)
		if asked != tc.asked || got["allowed"] != map[bool]string{true: "1", false: "0"}[tc.asked != ""] ||
			tc.asked == "" && got["reason"] != "bad_check" {
			t.Errorf("%q: asked %q, want %q; %v", tc.message, asked, tc.asked, got)
		}
	}
	if st := a.Stats(); st.Checks != 5 || st.Malformed != 3 {
		t.Errorf("%+v", st)
	}
}

func TestAgent_EndsHealthChecksAfterTheGreeting(t *testing.T) {
	t.Parallel()
	p := dial(t, New(Config{Gate: gateFunc(func(*hottype.Request) hottype.Verdict { return hottype.Verdict{} })}))
	p.greet(appendBool(appendText(nil, "healthcheck"), true)...)
	if _, _, err := readFrame(p.r, nil); err == nil {
		t.Error("the connection goes on")
	}
}

// A peer that does not speak the protocol is disconnected, with the reason.
func TestAgent_DisconnectsBrokenPeers(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(p *peer){
		"no greeting":  func(p *peer) { p.send(frameNotify, 1, 1, notification("GET", "/", "-")) },
		"HTTP":         func(p *peer) { _, _ = p.conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")) },
		"unknown kind": func(p *peer) { p.greet(); p.send(77, 1, 1, nil) },
		"short":        func(p *peer) { p.greet(); p.send(frameNotify, 1, 1, []byte("\x05chec")) },
		"greets twice": func(p *peer) { p.greet(); p.send(frameHello, 0, 0, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := New(Config{Gate: gateFunc(func(*hottype.Request) hottype.Verdict { return hottype.Verdict{} })})
			p := dial(t, a)
			send(p)
			if f := p.receive(); f.kind != frameAgentDisconnect || pairs(f.payload)["status-code"].number != 4 {
				t.Errorf("%+v", f)
			}
			if a.Stats().ProtocolErrors != 1 {
				t.Errorf("%+v", a.Stats())
			}
		})
	}
}

// A slow verdict delays no other, and calls under way are answered when the agent stops.
func TestAgent_AnswersOverlappingCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := New(Config{Gate: gateFunc(func(r *hottype.Request) hottype.Verdict {
			if r.Target == "/slow" {
				<-release
			}
			return hottype.Verdict{Allowed: true}
		})})
		ours, theirs := net.Pipe()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		c := connection{agent: a, conn: ours, calls: make(chan struct{}, maxCalls)}
		go func() { defer close(done); c.serve(ctx) }()
		p := &peer{t, theirs, bufio.NewReader(theirs)}
		p.greet()
		p.send(frameNotify, 1, 1, notification("GET", "/slow", "-"))
		p.send(frameNotify, 2, 1, notification("GET", "/", "-"))
		if f := p.receive(); f.stream != 2 {
			t.Errorf("stream %d is answered first", f.stream)
		}
		stop()
		close(release)
		if f := p.receive(); f.kind != frameAck || f.stream != 1 {
			t.Errorf("%+v, want the answer of the call under way", f)
		}
		if f := p.receive(); f.kind != frameAgentDisconnect {
			t.Errorf("%+v", f)
		}
		<-done
	})
}

// A connection ends 10 s after the greeting if no call came, and 5 minutes after its last call.
func TestConnection_EndsWhenIdle(t *testing.T) {
	t.Parallel()
	for calls, want := range map[int]time.Duration{0: 10 * time.Second, 1: 5 * time.Minute, 3: 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			allow := func(*hottype.Request) hottype.Verdict { return hottype.Verdict{Allowed: true} }
			a := New(Config{Gate: gateFunc(allow)})
			ours, theirs := net.Pipe()
			c := connection{agent: a, conn: ours, calls: make(chan struct{}, maxCalls)}
			go c.serve(t.Context())
			p := &peer{t, theirs, bufio.NewReader(theirs)}
			p.greet()
			for id := range calls {
				time.Sleep(9 * time.Second)
				p.send(frameNotify, uint64(id), 1, notification("GET", "/", "-"))
				p.receive()
			}
			began := time.Now()
			if f := p.receive(); f.kind != frameAgentDisconnect || time.Since(began) != want {
				t.Errorf("%d calls: %+v after %v, want the end after %v", calls, f, time.Since(began), want)
			}
		})
	}
}

// The calls that one connection has under way hold 1 MiB of frames; then it is not read. A frame has few messages: each
// is remembered with hundred times the bytes that it may have.
func TestAgent_BoundsTheCallsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := New(Config{Gate: gateFunc(func(*hottype.Request) hottype.Verdict {
			<-release
			return hottype.Verdict{Allowed: true}
		})})
		ours, theirs := net.Pipe()
		c := connection{agent: a, conn: ours, calls: make(chan struct{}, maxCalls)}
		go c.serve(t.Context())
		p := &peer{t, theirs, bufio.NewReader(theirs)}
		p.greet()
		sent := 0
		go func() {
			for p.conn.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
				n, err := p.conn.Write(appendFrame(nil, frameNotify, uint64(sent), 1,
					notification("GET", "/"+strings.Repeat("x", 60<<10), "-")))
				if err != nil || n == 0 {
					return
				}
				sent += n
			}
		}()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if most := maxCalls*callBytes + maxFrame; sent > most || sent < most/2 {
			t.Errorf("%d bytes are under way, want at most %d", sent, most)
		}
		_ = theirs.Close()
		close(release)
		synctest.Wait()
	})
	many := make([]byte, 2*(maxMessages+1)) // messages without name and arguments
	if _, err := decodeMessages(many); err == nil {
		t.Error("more messages than a frame may have")
	}
	if list, err := decodeMessages(many[2:]); err != nil || len(list) != maxMessages {
		t.Errorf("%d messages, %v", len(list), err)
	}
}

func TestDecodeHeaders_ReadsUpToTheEmptyName(t *testing.T) {
	t.Parallel()
	text := string(appendText(appendText(appendText(appendText(nil, "A"), "1"), "b"), "2"))
	for in, want := range map[string]httplimit.Headers{
		text + "\x00\x00rest": {{Name: "A", Value: "1"}, {Name: "b", Value: "2"}},
		text:                  {{Name: "A", Value: "1"}, {Name: "b", Value: "2"}},
		"\x05ab":              nil,
		"":                    nil,
	} {
		if got := decodeHeaders(in); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}
