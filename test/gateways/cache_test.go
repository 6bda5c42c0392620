package gateways

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// nginx answers a hot key from its cache: the application receives no more than the limit, readers get their page, and
// responses for cold or blocked keys, or for a known user, are never stored nor served.
func TestNginxCache_StoresOnlyHotKeys(t *testing.T) {
	t.Parallel()
	a := startApp(t)
	l := startLimiter(t, kinds["nginx"].limiter...)
	c, err := redisclient.Open(redisclient.Config{Addrs: []string{l.redis}, Namespace: "gateways"})
	feed := rediscontrol.New(redistest.MustOpen(t, c, err))
	now := time.Now()
	hot := hottype.HotKey{Key: "topic?id=hot", Rule: "topic", Rate: 1000, Since: now, Until: now.Add(time.Hour)}
	if err := feed.Publisher("test").Publish(t.Context(),
		report.HotSet{At: now, Keys: []hottype.HotKey{hot}}); err != nil {
		t.Fatal(err)
	}

	p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
	g := startGateway(t, nginxCache(t, p), "127.0.0.1:"+p.front, blocked, 429)
	program.Await(t, time.Minute, "the sidecar to know what is hot", func() bool {
		return g.get("/topic?id=hot").header.Get("X-Cache") == "HIT"
	})
	// the request that fills the cache has only those fields of the client that are in the cache's key
	if got := g.get("/topic?id=hot&fill=1", "X-Original-URL", "/other", "Accept", "a/b", "Accept-Language", "de",
		"Accept-Encoding", "br, gzip;q=1", "X-Forwarded-For", "192.0.2.7"); got.header.Get("X-Cache") != "MISS" {
		t.Errorf("another target of a hot key: %v", got.header)
	}
	fill, _ := a.last()
	if want := (http.Header{"Accept-Encoding": {"gzip"}}); fill.Host != "news.example" ||
		!maps.EqualFunc(fill.Header, want, slices.Equal[[]string]) {
		t.Errorf("the cache is filled by a request for %s with %v", fill.Host, fill.Header)
	}
	_, before := a.last()
	for range 300 { // three times the limit
		if got := g.get("/topic?id=hot"); got.status != 200 || got.body != "page\n" ||
			got.header.Get("X-Cache") != "HIT" {
			t.Fatalf("%d %v %s", got.status, got.header, got.body)
		}
	}
	if _, after := a.last(); after != before {
		t.Errorf("the application saw %d requests for what the cache holds", after-before)
	}
	for range 300 { // cold keys always reach the application
		if got := g.get("/topic?id=cold"); got.status != 200 || got.header.Get("X-Cache") != "BYPASS" {
			t.Fatalf("%d %v", got.status, got.header)
		}
	}
	if _, after := a.last(); after != before+300 {
		t.Errorf("the application saw %d of 300 requests for a cold key", after-before)
	}
	// beyond the limit by now, and not served from the cache
	for _, header := range []string{"Cookie", "Authorization"} {
		if got := g.get("/topic?id=hot", header, "secret"); got.status == 200 && got.header.Get("X-Cache") == "HIT" {
			t.Errorf("a request with %s was answered from the cache", header)
		}
	}
	if got := g.get(blocked); got.status != 429 || got.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v", got.status, got.header)
	}
	if got := g.get("/topic?id=hot&other=1"); got.status == 200 && got.header.Get("X-Cache") == "HIT" {
		t.Error("another target was answered from the cache")
	}
}

func nginxCache(t *testing.T, p places, replace ...string) *exec.Cmd {
	path, dir := installed(t, "nginx"), t.TempDir()
	sockets, err := os.MkdirTemp("", "nginx") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	config := deployed(t, "nginx/cache.conf", p.replacements("listen 10000", "listen 127.0.0.1:", "127.0.0.1:8185",
		slices.Concat(replace, p.wait("100ms", "5s"), []string{"/var/cache/nginx/hot", filepath.Join(dir, "hot"),
			"/run/nginx-refusals.sock", sockets + "/refusals", "/run/nginx-fetches.sock", sockets + "/fetches",
			"404 1s;", "404 1h;"}))...)
	return exec.Command(path, "-p", dir, "-e", "stderr", "-c", config, "-g", "user root; daemon off; pid "+dir+"/pid;")
}
