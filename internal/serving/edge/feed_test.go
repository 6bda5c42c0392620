package edge_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/edge"
)

const feedRules = `
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 9}, limit: {rate: 5}}]
ip: {fixed: {limit: 100, window: 1m}, trusted_proxies: [10.9.0.0/16]}
`

// counter records the counted keys.
type counter map[string]int64

func (c counter) AddFrom(key []byte, _, n int64, client hottype.Client) {
	c[string(key)+" "+client.String()] += n
}

func (c counter) AddCost(key []byte, second, cost, _ int64, client hottype.Client) {
	c.AddFrom(key, second, cost, client)
}

// site is a gate with its feed, whose clock a test moves.
type site struct {
	t     *testing.T
	now   time.Time
	gate  *gate.Gate
	hot   *hotset.Replica
	count counter
	feed  *edge.Feed
	since string // version of the last poll
}

func newSite(t *testing.T, text string) *site {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, now: time.Unix(1_700_000_000, 0), hot: &hotset.Replica{NoInputTTL: time.Second},
		count: counter{}}
	s.gate = gate.New(gate.Config{Rules: set, Hot: s.hot, Counter: s.count})
	s.feed = edge.NewFeed(edge.Config{Gate: s.gate, Hot: s.hot, Now: func() time.Time { return s.now }})
	return s
}

// publish makes keys hot, and no others.
func (s *site) publish(version uint64, keys ...string) {
	set := report.HotSet{At: s.now, Version: version}
	for _, k := range keys {
		set.Keys = append(set.Keys, hottype.HotKey{Key: hottype.Key(k), Until: s.now.Add(5 * time.Second)})
	}
	s.hot.Replace("aggregator", set)
	s.feed.Refresh()
}

// poll returns the lines that are not the head, sorted as they come, and whether they are changes.
func (s *site) poll() (lines string, changes bool) {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.feed.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/edge?since="+s.since, nil))
	body := w.Body.String()
	f := strings.Fields(body)
	if w.Code != 200 || len(f) < 4 || f[0] != "edge" || f[1] != "1" || !strings.HasSuffix(body, "\nend\n") {
		s.t.Fatalf("%d %s", w.Code, body)
	}
	s.since, changes = f[2], f[3] == "changes"
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "k ") || strings.HasPrefix(line, "c ") || strings.HasPrefix(line, "ask ") {
			lines += line
		}
	}
	return lines, changes
}

func (s *site) expect(want string, changes bool) {
	s.t.Helper()
	s.feed.Refresh()
	if got, of := s.poll(); got != want || of != changes {
		s.t.Errorf("the feed has %q (changes: %t), want %q", got, of, want)
	}
}

func TestFeed_SendsOnlyChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, feedRules)
	s.publish(1, "topic?id=1")
	s.expect("k d topic?id=1\n", false)
	s.publish(2, "topic?id=2")
	got, changes := s.poll()
	if !changes || len(got) != 30 || !strings.Contains(got, "k - topic?id=1\n") ||
		!strings.Contains(got, "k d topic?id=2\n") {
		t.Errorf("changes: %q", got)
	}
	block := rules.Override{ID: "no", Key: "topic?id=9", Action: rules.ActionBlock}
	s.gate.SetOverrides([]rules.Override{block})
	s.expect("k 0 no topic?id=9\n", true)
	block.Until = s.now.Add(time.Minute)
	s.gate.SetOverrides([]rules.Override{block})
	s.expect("k 60000 no topic?id=9\n", true)
	s.gate.SetOverrides([]rules.Override{{ID: "c", Client: "192.0.2.1", Action: rules.ActionExempt}})
	s.feed.Refresh()
	got, _ = s.poll()
	if !strings.Contains(got, "k - topic?id=9\n") || !strings.Contains(got, "c a c0000201\n") {
		t.Errorf("changes: %q", got)
	}
	s.now = s.now.Add(2 * time.Minute) // the publisher is silent, and its keys expire
	s.expect("k - topic?id=2\n", true)
	s.since = "other-1"
	s.expect("c a c0000201\n", false)
}

func TestFeed_AsksAboutAllForUnsupportedOverrides(t *testing.T) {
	t.Parallel()
	for _, o := range []rules.Override{
		{ID: "o", Key: "topic?id=1*", Action: rules.ActionBlock},
		{ID: "o", Resource: "topic", Action: rules.ActionBlock},
		{ID: "o", CIDR: "192.0.2.0/24", Action: rules.ActionBlock}, {ID: "o", Class: "bot", Action: rules.ActionBlock},
	} {
		s := newSite(t, feedRules)
		s.gate.SetOverrides([]rules.Override{o})
		s.expect("ask override o\n", false)
		s.gate.SetOverrides(nil)
		s.expect("", true)
	}
	const bot = "classes: [{name: bot, match: {header: User-Agent, pattern: bot}"
	newSite(t, feedRules+bot+"}]\n").expect("", false)
	for _, limit := range []string{"fixed: {limit: 9, window: 1m}", "sliding: {limit: 9, window: 1m}",
		"in_flight: {limit: 9}"} {
		newSite(t, feedRules+bot+", ip: {"+limit+"}}]\n").expect("ask classes with limits of their own\n", false)
	}
	newSite(t, strings.Replace(feedRules, "window: 1m", "window: 1m, mode: shadow", 1)).
		expect("ask an ip window in shadow mode\n", false)
	newSite(t, strings.Replace(feedRules, "window: 1m", "window: 1m, client_key: header.X-User", 1)).
		expect("ask an ip window with client_key\n", false)
	twice := []rules.Override{{ID: "a", Key: "topic?id=1", Action: rules.ActionBlock},
		{ID: "b", Key: "topic?id=1", Action: rules.ActionExempt}}
	s := newSite(t, feedRules)
	s.gate.SetOverrides(twice)
	s.expect("k a topic?id=1\n", false)
}

// TestFeed_RemembersOnlyDenialsForAllClients holds that denials which another client might not get are asked for.
func TestFeed_RemembersOnlyDenialsForAllClients(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]string{
		"limit: {rate: 5}": "d", "limit: {rate: 5, fair: true}": "a", "limit: {algorithm: in_flight, limit: 5}": "a",
		"limit: {rate: 5, adaptive: true, min: 1, max: 9}": "a", "limit: {rate: 5}, cache: {}": "c",
	} {
		s := newSite(t, strings.Replace(feedRules, "limit: {rate: 5}", limit, 1))
		s.publish(1, "topic?id=1")
		s.expect("k "+want+" topic?id=1\n", false)
	}
	for action, want := range map[rules.Action]string{rules.ActionLimit: "d", rules.ActionShadow: "a",
		rules.ActionExempt: "a", rules.ActionCache: "a"} {
		s := newSite(t, feedRules)
		s.publish(1, "topic?id=1")
		s.gate.SetOverrides([]rules.Override{{ID: "o", Key: "topic?id=1", Action: action, Rate: 1}})
		s.expect("k "+want+" topic?id=1\n", false)
	}
	// A denial to others would shut members out. An override, and a value of the limit, keep the priority of the rule.
	const priority = "limit: {rate: 5, burst: 9, priority: [member]"
	for _, limit := range []string{priority + "}", priority + ", values: [{key: \"topic?id=1\", rate: 2}]}"} {
		s := newSite(t, strings.Replace(feedRules, "limit: {rate: 5}", limit, 1)+
			"classes: [{name: member, match: {header: X-User, pattern: .}}]\n")
		s.publish(1, "topic?id=1")
		s.expect("k a topic?id=1\n", false)
		s.gate.SetOverrides([]rules.Override{{ID: "o", Key: "topic?id=1", Action: rules.ActionLimit, Rate: 1}})
		s.since = ""
		s.expect("k a topic?id=1\n", false)
	}
}

// TestFeed_IsSmallForTenThousandKeys holds the size that docs/protocol.md states.
func TestFeed_IsSmallForTenThousandKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, feedRules)
	var keys []string
	for i := range 10_000 {
		keys = append(keys, fmt.Sprintf("topic?id=%d", i))
	}
	s.publish(1, keys...)
	if got, _ := s.poll(); len(got) > 300_000 || strings.Count(got, "\n") != 10_000 {
		t.Errorf("%d bytes, %d lines", len(got), strings.Count(got, "\n"))
	}
	for i := range 10_000 {
		keys = append(keys, fmt.Sprintf("topic?id=x%d", i))
	}
	s.publish(2, append(keys, "topic?id=more")...)
	if got, _ := s.poll(); !strings.HasPrefix(got, "ask there are too many keys\n") {
		t.Errorf("more keys than the feed takes: %.60s", got)
	}
}

func TestFeed_PollWaitsForAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, feedRules)
		s.feed = edge.NewFeed(edge.Config{Gate: s.gate, Hot: s.hot})
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = s.feed.Run(ctx) }()
		s.expect("", false)
		began := time.Now()
		if lines, _ := s.poll(); lines != "" || time.Since(began) != time.Second {
			t.Errorf("without a change: %q after %v", lines, time.Since(began))
		}
		began = time.Now()
		time.AfterFunc(300*time.Millisecond, func() {
			s.hot.Replace("aggregator", report.HotSet{At: time.Now(), Version: 1, Keys: []hottype.HotKey{
				{Key: "topic?id=1", Until: time.Now().Add(time.Minute)}}})
		})
		if lines, _ := s.poll(); lines != "k d topic?id=1\n" || time.Since(began) > 330*time.Millisecond {
			t.Errorf("a change: %q after %v", lines, time.Since(began))
		}
		stop()
	})
}

func (s *site) post(lines string) int {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.feed.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/edge/counts?lost=3",
		strings.NewReader(lines)))
	return w.Code
}

func TestCount_CountsAsTheGateDoes(t *testing.T) {
	t.Parallel()
	s := newSite(t, feedRules)
	s.publish(1, "topic?id=hot")
	if code := s.post("+c0000201 topic?id=1\n+c0000201 topic?id=1\n-c0000202 topic?id=hot\n" +
		"+20010db800000001 topic?id=1\n" + "+c0000201 \n" + "+zz topic?id=1\n" +
		"+c00002 topic?id=1\nc0000201 topic?id=1\n+c0000201 topic?b=1&a=1\n" +
		"+c0000201\n=c0000202 topic?id=hot\n16-c0000202 topic?id=hot\n" +
		"0+c0000201 topic?id=1\n1001+c0000201 topic?id=1\n18446744073709551617+c0000201 topic?id=1\n16\n"); code != 204 {
		t.Errorf("status %d", code)
	}
	want := counter{"topic?id=1 192.0.2.1": 2, "topic?id=hot 192.0.2.2": 18, "topic?id=1 2001:db8:0:1::": 1}
	if fmt.Sprint(s.count) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", s.count, want)
	}
	st, g := s.feed.Stats(), s.gate.Stats()
	if st.Counted != 22 || st.Invalid != 9 || st.Lost != 3 {
		t.Errorf("statistics: %+v", st)
	}
	if g.Allowed[hottype.ReasonCold] != 3 || g.Allowed[hottype.ReasonNoRule] != 1 ||
		g.Denied[hottype.ReasonHot] != 17 || g.Allowed[hottype.ReasonCached] != 1 {
		t.Errorf("verdicts: %+v", g)
	}
	if code := s.post(strings.Repeat("x", 5<<20)); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a post of 5 MiB: %d", code)
	}
}

// passes counts how often a gate is called.
type passes struct {
	*gate.Gate
	calls, requests int64
}

func (p *passes) Passed(now time.Time, r gate.PassedRequests) {
	p.calls++
	p.requests += r.N
	p.Gate.Passed(now, r)
}

// The cost of a line does not depend on its number of requests.
func TestCount_CostsOneCallPerLine(t *testing.T) {
	t.Parallel()
	s := newSite(t, feedRules)
	p := &passes{Gate: s.gate}
	edge.NewFeed(edge.Config{Gate: p, Hot: s.hot, Now: func() time.Time { return s.now }}).Count(t.Context(),
		[]byte(strings.Repeat("1000+c0000201 topic?id=1\n", 40)+strings.Repeat("1000-c0000201 topic?id=1\n", 2)))
	st := s.gate.Stats()
	if p.calls != 42 || p.requests != 42_000 || s.count["topic?id=1 192.0.2.1"] != 42_000 ||
		st.Allowed[hottype.ReasonCold] != 40_000 || st.Denied[hottype.ReasonHot] != 2_000 {
		t.Errorf("%d calls for %d requests; counted %v, verdicts %+v", p.calls, p.requests, s.count, st)
	}
}

// TestCount_SuspectsHeavyClients holds that what passed is charged, that a client with half of its window is asked
// about, and that it gets no more than its window and what had passed.
func TestCount_SuspectsHeavyClients(t *testing.T) {
	t.Parallel()
	s := newSite(t, feedRules)
	s.expect("", false)
	s.post(strings.Repeat("+c0000201 topic?id=1\n", 40) + strings.Repeat("-c0000202 topic?id=1\n", 90))
	s.expect("", true)
	s.post(strings.Repeat("+c0000201 topic?id=1\n", 20))
	s.expect("c a c0000201\n", true)
	allowed := 60
	req := hottype.Request{Target: "/topic?id=1", Client: hottype.ClientFromAddr(netip.MustParseAddr("192.0.2.1"))}
	for range 100 {
		if s.gate.Decide(t.Context(), s.now, &req).Allowed {
			allowed++
		}
	}
	if allowed != 100 {
		t.Errorf("%d allowed, of a window of 100", allowed)
	}
	s.post(strings.Repeat("+c0000203 topic?id=1\n", 130)) // more than its window at once: all of that is used
	req.Client = hottype.ClientFromAddr(netip.MustParseAddr("192.0.2.3"))
	if s.gate.Decide(t.Context(), s.now, &req).Allowed {
		t.Error("a client that has passed 130 times is allowed in a window of 100")
	}
	s.now = s.now.Add(2 * time.Minute)
	s.feed.Refresh()
	got, _ := s.poll()
	if strings.Count(got, "c - ") != 1 || strings.Contains(got, "c a") { // the other was never sent
		t.Errorf("after the window: %q", got)
	}
}

// TestCount_SuspectsTrustedProxies holds that a client behind a trusted proxy is not taken for the proxy.
func TestCount_SuspectsTrustedProxies(t *testing.T) {
	t.Parallel()
	s := newSite(t, feedRules)
	s.expect("", false)
	s.post(strings.Repeat("+0a090001 topic?id=1\n", 200))
	s.expect("c a 0a090001\n", true)
	if s.count["topic?id=1 -"] != 200 {
		t.Errorf("counted %v", s.count)
	}
}

func TestFeed_CountsPollsWithOtherRules(t *testing.T) {
	t.Parallel()
	s := newSite(t, feedRules)
	w := httptest.NewRecorder()
	s.feed.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/edge?rules=other", nil))
	version := edge.Version(s.gate.Rules())
	st := s.feed.Stats()
	if body := w.Body.String(); !strings.Contains(body, "\nrules "+version+"\n") || st.Differing != 1 {
		t.Errorf("%s\n%+v", body, st)
	}
}

func FuzzCounts(f *testing.F) {
	f.Add([]byte("+c0000201 topic?id=1\n-20010db800000001 \n16=c0000201 topic?id=1\n"))
	f.Add([]byte(">200,35.2,512,-,c0000201 report?filter=a\n<200,-,-,1 7\n"))
	f.Fuzz(func(t *testing.T, lines []byte) { newSite(t, costRules).feed.Count(t.Context(), lines) })
}
