package gateways

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// paddedSizes returns lengths around the bounds of gateways and of our listeners: of nginx' buffer for answers (4 KB)
// and its request line (8 KB), of a query (8,192 bytes), of HAProxy's frames and requests (16 KB), of Envoy's fields
// (60 KB), of our listeners (64 KB).
func paddedSizes() (list []int) {
	list = []int{1, 200, 700, 1300, 2000, 3000, 6000, 12_000, 30_000}
	for _, bound := range []int{4096, 4096 / 3, 8192, 8192 - 60, 15_000, 16_000, 16_384, 16_384 / 3, 60 << 10,
		64 << 10} {
		list = append(list, bound-200, bound-20, bound+20, bound+200)
	}
	return list
}

// paddings are ways to make a request of a number of bytes: a target, and fields.
var paddings = []func(path string, n int) (target, fields string){
	func(path string, n int) (string, string) { return path + pairs(n, "!"), "" },
	func(path string, n int) (string, string) { return path + pairs(n, "a"), "" },
	func(path string, n int) (string, string) { return path + pairs(n, "%21"), "" },
	func(path string, n int) (string, string) {
		return path + pairs(n/2, "!"), "X-Pad: " + strings.Repeat("p", n/2)
	},
	func(path string, n int) (string, string) { return path, "X-Pad: " + strings.Repeat("p", n) },
}

// pairs returns parameters of n bytes in all, each no longer than the rules allow.
func pairs(n int, unit string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "&p%d=%s", i, strings.Repeat(unit, min(255, n-b.Len())/len(unit)))
	}
	return b.String()
}

// paddedPath is a path of a rule that counts every parameter.
const paddedPath = "/padded/?x=1"

// randomPadding returns a request with parameters of any bytes and fields of any length.
func randomPadding(r *rand.Rand) (target, fields string) {
	const bytes = "!aZ09%-_.~*'();:@,/[]|$"
	target = paddedPath
	for range r.IntN(40) {
		target += "&" + string(rune('a'+r.IntN(26))) + strconv.Itoa(r.IntN(1000)) + "="
		for range r.IntN(257) >> r.IntN(9) {
			c := bytes[r.IntN(len(bytes))]
			if c == '%' {
				target += fmt.Sprintf("%%%02x", 0x20+r.IntN(0xe0))
			} else {
				target += string(c)
			}
		}
		if n := r.IntN(200); n < 50 {
			target += strings.Repeat("!", n*5)
		}
	}
	if r.IntN(3) == 0 {
		fields = "X-Pad: " + strings.Repeat("p", r.IntN(1<<r.IntN(15)))
	}
	return target, fields
}

// paddingClient and shortClient are clients that the rules block.
const paddingClient, shortClient = "127.0.0.9", "127.0.0.8"

// denied sends a request of a blocked client, and checks that it is refused and does not reach the application.
func (g *gateway) denied(conn *keptConn, a *tolerantApp, what, target, fields string) {
	g.t.Helper()
	before := a.seen.Load()
	if fields != "" {
		fields += "\r\n"
	}
	status := conn.ask("GET " + target + " HTTP/1.1\r\nHost: news.example\r\n" + fields + "\r\n")
	if after := a.seen.Load(); after != before || status != 0 && (status < 400 || status > 499) {
		g.t.Errorf("%s (%d bytes): %d, and %d requests reached the application", what, len(target)+len(fields), status,
			after-before)
	}
}

// keptConn is a connection of a client that is opened again when the gateway has closed it.
type keptConn struct {
	g      *gateway
	client string
	conn   net.Conn
	r      *bufio.Reader
}

// ask returns the status of an answer, or 0 if the gateway ended the connection without an answer.
func (c *keptConn) ask(text string) int {
	c.g.t.Helper()
	for range 2 {
		kept := c.conn != nil
		if !kept {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.client)}}
			conn, err := d.DialContext(c.g.t.Context(), "tcp", c.g.addr)
			if err != nil {
				c.g.t.Fatal(err)
			}
			c.conn, c.r = conn, bufio.NewReader(conn)
		}
		_ = c.conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c.conn, text) // a gateway may answer before it has read all
		res, err := http.ReadResponse(c.r, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
		}
		if err != nil || res.Close || res.StatusCode != http.StatusTooManyRequests {
			_ = c.conn.Close()
			c.conn = nil
		}
		if err == nil {
			return res.StatusCode
		}
		if !kept {
			break
		}
	}
	return 0
}

// A blocked client cannot get through a gateway by a longer request, whatever its length. A limiter's answer does not
// grow with a request, so no answer is lost. Another blocked client stays blocked meanwhile.
//
// HOTPARAM_PADDED is the number of random requests that each gateway gets beside the others.
func TestGateways_DenyPaddedRequests(t *testing.T) {
	t.Parallel()
	random := 150
	if text := os.Getenv("HOTPARAM_PADDED"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("HOTPARAM_PADDED: %v", err)
		}
		random = n
	}
	all := withPlugins()
	maps.Copy(all, map[string]kind{
		"nginx with its cache": {limiter: kinds["nginx"].limiter, command: nginxCache},
		"the built-in proxy":   {limiter: []string{"--decide.listen", "{addr}"}, command: proxy},
	})
	for name, k := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, l := startTolerantApp(t), startLimiter(t, k.limiter...)
			p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.ln.Addr().String(), true, l.edge}
			g := startGateway(t, k.command(t, p), "127.0.0.1:"+p.front, blocked, 429)
			conn, other := &keptConn{g: g, client: paddingClient}, &keptConn{g: g, client: shortClient}
			if status := g.get(paddedPath).status; status != 200 {
				t.Errorf("another client: %d", status)
			}
			for _, n := range paddedSizes() {
				for i, pad := range paddings {
					target, fields := pad(paddedPath, n)
					g.denied(conn, a, fmt.Sprintf("padding %d", i), target, fields)
				}
			}
			seed := rand.Uint64()
			r := rand.New(rand.NewPCG(seed, 0))
			for range random {
				target, fields := randomPadding(r)
				g.denied(conn, a, fmt.Sprintf("seed %d", seed), target, fields)
				g.denied(other, a, "a short request of another client", paddedPath, "")
				if t.Failed() {
					break
				}
			}
			t.Logf("%d requests", len(paddedSizes())*len(paddings)+random)
		})
	}
}
