package listener

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
)

const whoAmI = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// startProxyListener starts a listener whose responses name the client that it sees.
func startProxyListener(t *testing.T, trusted bool, change func(*Config)) *Server {
	t.Helper()
	s, _ := start(t, func(cfg *Config) {
		cfg.ProxyProtocol = func(netip.Addr) bool { return trusted }
		cfg.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) })
		if change != nil {
			change(cfg)
		}
	})
	return s
}

// answerTo writes text on a connection and returns the body of the response, or "" if there is none.
func answerTo(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		return ""
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return res.Status
	}
	return string(body)
}

func tcp(s string) *net.TCPAddr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }

// v2 is a header in the binary form.
func v2(t *testing.T, h *proxyproto.Header) string {
	t.Helper()
	var b bytes.Buffer
	h.Version = 2
	if _, err := h.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestProxyProtocol_NamesClient(t *testing.T) {
	t.Parallel()
	s := startProxyListener(t, true, nil)
	four := &proxyproto.Header{
		Command: proxyproto.PROXY, TransportProtocol: proxyproto.TCPv4,
		SourceAddr: tcp("192.0.2.7:4711"), DestinationAddr: tcp("192.0.2.1:80"),
	}
	six := *four
	six.TransportProtocol = proxyproto.TCPv6
	six.SourceAddr, six.DestinationAddr = tcp("[2001:db8::7]:4711"), tcp("[2001:db8::1]:80")
	for header, want := range map[string]string{
		"PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n":     "192.0.2.7:4711",
		"PROXY TCP6 2001:db8::7 2001:db8::1 4711 80\r\n": "[2001:db8::7]:4711",
		v2(t, four): "192.0.2.7:4711",
		v2(t, &six): "[2001:db8::7]:4711",
	} {
		if got := answerTo(t, dial(t, s), header+whoAmI); got != want {
			t.Errorf("%q: %q, want %s", header, got, want)
		}
	}
	// A proxy that asks for itself, to see whether we live, is itself.
	for _, header := range []string{"PROXY UNKNOWN\r\n", v2(t, &proxyproto.Header{Command: proxyproto.LOCAL})} {
		c := dial(t, s)
		if got := answerTo(t, c, header+whoAmI); got != c.LocalAddr().String() {
			t.Errorf("%q: %q, want %s", header, got, c.LocalAddr())
		}
	}
	if n := s.Stats().NoHeader; n != 0 {
		t.Errorf("%d connections without a header", n)
	}
}

// Were a proxy to leave its header out, the client behind it could write one.
func TestProxyProtocol_RequiresHeaderOfTrusted(t *testing.T) {
	t.Parallel()
	s := startProxyListener(t, true, func(cfg *Config) { cfg.HeaderTimeout = 100 * time.Millisecond })
	bad := []string{whoAmI, "PROXY TCP4 192.0.2.7\r\n" + whoAmI, "PROXY " + strings.Repeat("x", 300) + whoAmI, ""}
	for _, text := range bad {
		if got := answerTo(t, dial(t, s), text); got != "" {
			t.Errorf("%.40q is answered %q", text, got)
		}
	}
	await(t, "the counter", func() bool { return s.Stats().NoHeader == uint64(len(bad)) })
}

// A peer that is not trusted cannot choose its address: its header is an odd request.
func TestProxyProtocol_IgnoresHeaderOfStrangers(t *testing.T) {
	t.Parallel()
	s := startProxyListener(t, false, nil)
	if got := answerTo(t, dial(t, s), "PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n"+whoAmI); !strings.HasPrefix(got,
		"400") {
		t.Errorf("a forged header is answered %q", got)
	}
	c := dial(t, s)
	if got := answerTo(t, c, whoAmI); got != c.LocalAddr().String() {
		t.Errorf("%q, want %s", got, c.LocalAddr())
	}
}

// A peer that sends nothing, or half a header, keeps no other waiting.
func TestProxyProtocol_SlowHeaderDelaysNobody(t *testing.T) {
	t.Parallel()
	s := startProxyListener(t, true, nil)
	for _, text := range []string{"", "PRO"} {
		if _, err := io.WriteString(dial(t, s), text); err != nil {
			t.Fatal(err)
		}
	}
	if got := answerTo(t, dial(t, s), "PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n"+whoAmI); got != "192.0.2.7:4711" {
		t.Errorf("%q", got)
	}
}

// The header comes before the handshake of TLS, and a socket has one too.
func TestProxyProtocol_WorksBelowTLSAndOnSockets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	s := startProxyListener(t, true, func(cfg *Config) { cfg.Addr = "unix:" + path })
	if got := answerTo(t, dial(t, s), "PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n"+whoAmI); got != "192.0.2.7:4711" {
		t.Errorf("on a socket: %q", got)
	}
	s = startProxyListener(t, true, func(cfg *Config) { cfg.TLS = newFiles(t).write(t, "one", false) })
	c := dial(t, s)
	if _, err := io.WriteString(c, "PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n"); err != nil {
		t.Fatal(err)
	}
	if got := answerTo(t, tls.Client(c, &tls.Config{InsecureSkipVerify: true}), whoAmI); got != "192.0.2.7:4711" {
		t.Errorf("below TLS: %q", got)
	}
}
