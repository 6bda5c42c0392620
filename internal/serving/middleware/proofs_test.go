package middleware_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// No handler sees what clients prove classes by, whatever becomes of the request, and all other cookies as they were.
func TestProofs_ReachNoHandler(t *testing.T) {
	t.Parallel()
	eachSite(t, func(t *testing.T, s *site) {
		s.client.Jar = nil
		pass, grant := s.pass(), s.passes.Grant(s.time(), "staff")
		for _, target := range []string{"/page/1", "/story?id=1", "/story?id=2", "/watched", "/free", "/other"} {
			for i, c := range []struct{ sent, want string }{
				{pass, ""}, {"__Host-" + pass + "; " + grant, ""}, {"a=b; " + pass + "; c=d", "a=b; c=d"},
				{grant + "; a=b", "a=b"}, {"hotparam_page=3; a=" + pass, "hotparam_page=3; a=" + pass}, {"", ""},
			} {
				fields := []string{"X-Hotparam-Class: staff", "X-Own: 1"}
				if c.sent != "" {
					fields = append(fields, "Cookie: "+c.sent)
				}
				before := s.asked.Load()
				unique := fmt.Sprintf("%s%cn=%d", target, "?&"[strings.Count(target, "?")], i)
				res, _ := s.get(http.MethodGet, unique, fields...)
				got := strings.Join(*s.cookies.Load(), "; ")
				if res.StatusCode != 200 || s.asked.Load() != before+1 || got != c.want || *s.class.Load() != nil {
					t.Errorf("%s with %q: %d, the handler saw %q and %v", target, c.sent, res.StatusCode, got,
						*s.class.Load())
				}
				s.now.Add(10) // the limits are whole again
			}
		}
	})
}

// A client with a pass alone gets the responses of the cache, and its own requests are charged to its class.
func TestProofs_KeepTheCache(t *testing.T) {
	t.Parallel()
	eachSite(t, func(t *testing.T, s *site) {
		s.client.Jar = nil
		pass := "Cookie: " + s.pass()
		for i := range 3 {
			res, _ := s.get(http.MethodGet, "/story?id=1", pass)
			if res.StatusCode != 200 || s.asked.Load() != 1 || *s.cookies.Load() != nil {
				t.Errorf("request %d: %d, %v; asked %d times", i, res.StatusCode, res.Header, s.asked.Load())
			}
		}
		if s.get(http.MethodGet, "/story?id=1", pass, "Cookie: a=b"); s.asked.Load() != 2 {
			t.Error("a request with another cookie was answered from the cache")
		}
		n := 0 // of misses, which are charged
		miss := func(fields ...string) int {
			n++
			res, _ := s.get(http.MethodGet, fmt.Sprintf("/story?id=1&n=%d", n), fields...)
			return res.StatusCode
		}
		for range 20 {
			miss()
		}
		for i, c := range []struct {
			want  int
			field string
		}{
			{429, "X-Own: 1"}, {200, pass}, {200, pass}, {429, pass}, {429, "X-User: anna"},
			{200, "Cookie: " + s.passes.Grant(s.time(), "staff")},
		} {
			if got := miss(c.field); got != c.want {
				t.Errorf("request %d with %s: %d, want %d", i, c.field, got, c.want)
			}
		}
	})
}

// A reader without a login is denied once, keeps the cookie of the denial, and is in when the page of the denial has
// reloaded itself.
func TestProofs_LetReadersIn(t *testing.T) {
	t.Parallel()
	eachSite(t, func(t *testing.T, s *site) {
		flood := func() {
			for range 20 {
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/page/2", nil)
				res, err := s.client.Transport.RoundTrip(r) // keeps no cookies
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
			}
		}
		flood()
		res, page := s.get(http.MethodGet, "/page/1", "Accept: text/html")
		var seconds int64
		_, meta, _ := strings.Cut(page, `<meta http-equiv="refresh" content="`)
		if _, err := fmt.Sscanf(meta, "%d", &seconds); err != nil || res.StatusCode != 429 || seconds < 11 ||
			seconds > 15 || res.Header.Get("Retry-After") != "11" || strings.Contains(page, "<script") {
			t.Fatalf("%d %v %s", res.StatusCode, res.Header, page)
		}
		cookie := res.Cookies()[0]
		if secure := strings.HasPrefix(s.url, "https"); strings.HasPrefix(cookie.Name, "__Host-") != secure ||
			cookie.Secure != secure || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v", res.Header)
		}
		s.now.Add(5)
		flood()
		if res, _ = s.get(http.MethodGet, "/page/1"); res.StatusCode != 429 || len(res.Cookies()) > 0 ||
			res.Header.Get("Retry-After") != "6" {
			t.Errorf("before its time: %d %v", res.StatusCode, res.Header)
		}
		s.now.Add(seconds - 5)
		flood()
		if res, _ = s.get(http.MethodGet, "/page/1"); res.StatusCode != 200 || len(res.Cookies()) > 0 {
			t.Errorf("when the page reloads: %d %v", res.StatusCode, res.Header)
		}
	})
}

// A class by a field counts where a trusted proxy has sent it, and these clients are not proxies.
func TestPriority_IsNotGainedByAField(t *testing.T) {
	t.Parallel()
	eachSite(t, func(t *testing.T, s *site) {
		s.client.Jar = nil
		for range 20 {
			s.get(http.MethodGet, "/page/1")
		}
		for _, field := range []string{"X-User: anna", "X-Hotparam-Class: staff", "Cookie: hotparam_class=staff"} {
			if res, _ := s.get(http.MethodGet, "/page/1", field, "X-Forwarded-For: 127.0.0.9",
				"Forwarded: for=127.0.0.9", "X-Real-IP: 127.0.0.9"); res.StatusCode != 429 {
				t.Errorf("%s: %d", field, res.StatusCode)
			}
		}
		if res, _ := s.get(http.MethodGet, "/page/1", "Cookie: "+s.pass()); res.StatusCode != 200 {
			t.Errorf("with a pass: %d", res.StatusCode)
		}
	})
}

// An upgraded connection grants like any other response, and its handler sees no proofs.
func TestProofs_StayOutOfUpgrades(t *testing.T) {
	t.Parallel()
	s := openSite(t, "proxy", "HTTP/1.1")
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			httplimit.FieldGrant+": staff\r\n\r\n")
	})
	raw, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_, _ = io.WriteString(raw, "GET /page/1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Cookie: a=b; "+s.pass()+"\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(raw), nil)
	if err != nil || res.StatusCode != 101 || res.Header[httplimit.FieldGrant] != nil || len(res.Cookies()) != 1 ||
		!slices.Equal(*s.cookies.Load(), []string{"a=b"}) {
		t.Errorf("%v %v, the handler saw %v", res, err, *s.cookies.Load())
	}
}
