package learn

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// Numbers that begin near 0 and are rarer the greater they are measure something. Ids, and values of which none is
// rarer, do not.
func TestIsMeasure_TellsMeasuresFromIds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	ids := r.Perm(400)
	long := func() float64 { return r.ExpFloat64() * r.ExpFloat64() * r.ExpFloat64() }
	popular := func() int { return int(400 * r.Float64() * r.Float64() * r.Float64()) }
	for name, tt := range map[string]struct {
		value func(i int) string
		want  bool
	}{
		"seconds of a player": {func(int) string { return fmt.Sprint(10 * int(4*r.ExpFloat64())) }, true},
		"sizes":               {func(int) string { return fmt.Sprint(int(1000 * long())) }, true},
		"popular ids":         {func(int) string { return fmt.Sprint(1 + ids[popular()]) }, false},
		"rooms":               {func(i int) string { return fmt.Sprint(1 + i%11) }, false},
		"ids far from 0":      {func(int) string { return fmt.Sprint(90_000 + popular()) }, false},
		"words":               {func(int) string { return fmt.Sprint("w", popular()) }, false},
	} {
		v := newValues()
		for i := range 3000 {
			v.add(tt.value(i), uint32(i%50), time.Unix(1_700_000_000, 0))
		}
		if got := v.isMeasure(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The id of a click is requested within a short while only, by any client. A page is requested again later.
func TestIsOfOneVisit_TellsClicksFromPages(t *testing.T) {
	t.Parallel()
	click, page := newValues(), newValues()
	for i := range 2000 {
		at := time.Unix(1_700_000_000+int64(10*i), 0)
		click.add(fmt.Sprint("c", i/2), uint32(i%3), at)
		page.add(fmt.Sprint("p", i%1000), uint32(i%3), at)
	}
	if !click.isOfOneVisit(20_000) || page.isOfOneVisit(20_000) {
		t.Errorf("click %v, page %v", click.isOfOneVisit(20_000), page.isOfOneVisit(20_000))
	}
}

// The values of a player's video are shared if several clients watch it, although each sends many reports.
func TestIsShared_CountsValuesToo(t *testing.T) {
	t.Parallel()
	video, session := newValues(), newValues()
	for i := range 3000 {
		client, at := uint32(i/30), time.Unix(1_700_000_000, 0)
		video.add(fmt.Sprint("v", client%60), client, at)
		session.add(fmt.Sprint("s", client), client, at)
	}
	if !video.isShared(0.1) || session.isShared(0.1) {
		t.Errorf("video %v, session %v", video.isShared(0.1), session.isShared(0.1))
	}
}

// visits lets a client request a target at some seconds of a log of an hour.
func visits(v *visitors, client, agent, target string, status int, seconds ...int64) {
	for _, s := range seconds {
		r := &hottype.Request{Method: "HEAD", Client: hottype.ParseClient(client), Target: target,
			Header: &accesslog.Header{UserAgent: agent}}
		v.add(&replay.Seen{At: time.Unix(1_700_000_000+s, 0), Status: status, Request: r}, false)
	}
}

// A client that requests one page at a steady interval is a probe with any user agent. Requests at random times,
// and for a value, are a loop.
func TestIsProbe_RecognisesSteadyIntervals(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	var fast, slow, random, randomSlow []int64
	for s := range int64(3600) {
		for range 5 {
			fast = append(fast, s)
		}
		if s%30 == 0 {
			slow = append(slow, s+r.Int64N(3))
		}
		for range int(r.ExpFloat64() * 3) {
			random = append(random, s)
		}
		if r.IntN(30) == 0 {
			randomSlow = append(randomSlow, s)
		}
	}
	v := newVisitors()
	visits(v, "10.0.0.1", "curl/8", "/", 200, fast...)
	visits(v, "10.0.0.2", "", "/health", 200, slow...)
	visits(v, "192.0.2.1", "curl/8", "/", 200, random...)
	visits(v, "192.0.2.2", "curl/8", "/", 200, randomSlow...)
	visits(v, "192.0.2.3", "curl/8", "/topic?id=1", 200, fast...)
	v.classifyAll()
	for client, want := range map[string]kind{
		"10.0.0.1": probe, "10.0.0.2": probe, "192.0.2.1": loop, "192.0.2.2": loop, "192.0.2.3": loop,
	} {
		if got := v.all[hottype.ParseClient(client)].kind; got != want {
			t.Errorf("%s: %s, want %s", client, got, want)
		}
	}
}

// Machines with private addresses do not make a log one of a proxy.
func TestProxyReason_IgnoresMachines(t *testing.T) {
	t.Parallel()
	v := newVisitors()
	for n := range 1000 {
		visits(v, "10.0.0.9", "-", fmt.Sprint("/x", n), 404, int64(n))
	}
	for n := range 300 {
		visits(v, fmt.Sprintf("81.2.%d.7", n%100), "-", fmt.Sprint("/page", n), 200, int64(n))
	}
	v.classifyAll()
	if why := v.proxyReason(&survey{}); why != "" {
		t.Errorf("%q", why)
	}
}

// A few addresses that are there all the time and choose pages independently are a CDN. Crawlers, which request each
// page once, and people who come back to their pages are not.
func TestProxyReason_FindsFewIndependentAddresses(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	for name, tt := range map[string]struct {
		page  func(i, client int) int
		found bool
	}{
		"a CDN":    {func(int, int) int { return r.IntN(50) }, true},
		"crawlers": {func(i, client int) int { return i/8 + 40*client }, false},
		"people":   {func(_, client int) int { return client*6 + r.IntN(6) }, false},
	} {
		v, pages := newVisitors(), newValues()
		for i := range 2400 {
			client := i % 8
			page := tt.page(i, client)
			visits(v, fmt.Sprintf("172.64.0.%d", client), "-", fmt.Sprintf("/page?id=%d&x=%d", page, i), 200, int64(i))
			pages.add(fmt.Sprint(page), uint32(client), time.Unix(1_700_000_000+int64(i), 0))
		}
		v.classifyAll()
		s := &survey{places: []*place{{params: []*tracked{{name: "id", values: pages}}}}}
		if why := v.proxyReason(s); strings.Contains(why, "as often as chance") != tt.found {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// A window that denies too much is widened to the need of the busiest ordinary client. The other window is left.
func TestPerIPWiden_RaisesOnlyTheWindowThatHurts(t *testing.T) {
	t.Parallel()
	v := newVisitors()
	p := perIP{fixed: 10, mostFixed: 30, sliding: 60, mostSliding: 200}
	if !p.widen(v, false, true) || p.fixed != 10 || p.sliding != 200 {
		t.Errorf("%+v", p)
	}
	if p.widen(v, false, true) || p.sliding != 200 {
		t.Errorf("a second time: %+v", p)
	}
}

// Pages whose query has a tracker are values like the others.
func TestFoldChildren_IgnoresCommonParams(t *testing.T) {
	t.Parallel()
	p := newPaths()
	for n := range 60 {
		for range 3 {
			p.add(&hottype.Request{Method: "GET", Target: fmt.Sprintf("/news/story-%c%c?cb=%d", 'a'+n%26, 'a'+n/26, n)}, 200)
		}
		p.add(&hottype.Request{Method: "GET", Target: "/news/search?q=x"}, 200)
	}
	var patterns []string
	for _, t := range p.buildTemplates() {
		patterns = append(patterns, t.pattern)
	}
	if got := strings.Join(patterns, " "); got != "/news/search /news/{id}" {
		t.Error(got)
	}
}

// Summaries show no value of a parameter that names a secret.
func TestHideSecrets_KeepsOtherValues(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"/login?token=geheim": "/login?token=…", "topic?id=1": "topic?id=1", "/login": "/login",
		"all?a=1&access_token=x%3Dy&b=2": "all?a=1&access_token=…&b=2", "all?flag&sid=5": "all?flag&sid=…",
	} {
		if got := hideSecrets(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

// If more than a tenth of all requests would be denied, the text names the clients.
func TestSummaryLines_NamesDeniedClients(t *testing.T) {
	t.Parallel()
	o := Outcome{Replay: &replay.Report{Requests: 100}, Hardest: []DeniedClient{{hottype.ParseClient("192.0.2.7"), 20}}}
	p := &Proposal{visitors: newVisitors(), proxied: "a proxy", wanted: []string{"topic?id=1 (40 % of the requests)"}}
	o.Replay.Hot = []replay.Span{{Key: "topic?id=1"}}
	text := strings.Join(o.summaryLines(p), "\n")
	for _, want := range []string{
		"are by 192.0.2.7 (20 requests)", "Hot: topic?id=1.", "Wanted most: topic?id=1 (40 %",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
