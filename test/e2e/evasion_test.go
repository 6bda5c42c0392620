package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// TestHotValue_IsLimitedBesideRandomOnes checks that requests that name a random value beside the hot one
// make it hot all the same, are held to its limit, and do not pass by its block.
func TestHotValue_IsLimitedBesideRandomOnes(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed.Add(1)
	}))
	t.Cleanup(upstream.Close)
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	config := write(t, "hotparam.yaml", `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 20, window: 1s, cooldown: 1m}, limit: {rate: 5, burst: 5}}
`)
	launch(t, "hotparam", "serve", "--config", config, "--upstream", upstream.URL, "--listen", addr, "--admin.listen",
		admin, "--state.dir", t.TempDir())
	ready(t, admin)
	attack := func() int {
		r := rand.Uint64()
		target := []string{"/topic?id=star&id=%d", "/topic?id=%d&%%69d=st%%61r",
			"/topic?id=7&id=star&id=%d&id=star"}[r%3]
		status, _ := get(t, "http://"+addr+fmt.Sprintf(target, r))
		return status
	}
	program.Await(t, time.Minute, "the value is hot", func() bool { return attack() == http.StatusTooManyRequests })

	passed.Store(0)
	start := time.Now()
	for time.Since(start) < time.Second {
		attack()
	}
	most := int64(5 + 5*time.Since(start).Seconds() + 1)
	if n := passed.Load(); n > most || n == 0 {
		t.Errorf("%d passed in %v, at most %d should", n, time.Since(start), most)
	}

	body := `{"key":"topic?id=star","action":"block"}`
	if status, text := do(t, http.MethodPut, "http://"+admin+"/v1/overrides/star?confirm=true", body,
		http.Header{"Content-Type": {"application/json"}}); status/100 != 2 {
		t.Fatalf("PUT: %d %s", status, text)
	}
	passed.Store(0)
	for _, query := range []string{"", "&" + strings.Repeat("x&", 300), "&x=" + strings.Repeat("y", 9000),
		"&id=1&id=2&id=3&id=4"} {
		if status, text := get(t, "http://"+addr+"/topic?id=star"+query); status != http.StatusTooManyRequests ||
			!strings.Contains(text, `"blocked"`) {
			t.Errorf("%.40s: %d %s", query, status, text)
		}
	}
	for range 20 {
		attack()
	}
	if n := passed.Load(); n != 0 {
		t.Errorf("%d passed by the block", n)
	}
	if status, _ := get(t, "http://"+addr+"/topic?id=9"); status != http.StatusOK {
		t.Errorf("another value: %d", status)
	}
}
