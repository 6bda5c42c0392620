package gate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// A report names the clients of a sample of the last minute since the first report, and denied clients with the reason.
// The samples are kept in bounded memory, and no longer than a minute.
func TestReportNamesTheClients(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	b.SetOverrides([]rules.Override{{ID: "no", Client: "198.51.100.9", Action: rules.ActionBlock}})
	b.Report(b.now)
	for i := range 600 {
		at := b.now.Add(time.Duration(i) * 100 * time.Millisecond)
		client := fmt.Sprintf("192.0.2.%d", i%200)
		if i%2 == 0 {
			client = "198.51.100.9"
		}
		b.Decide(t.Context(), at, request("/topic?id=1", client))
	}
	end := b.now.Add(time.Minute)
	r := b.Report(end)
	var all, loop uint64
	for _, c := range r.Clients {
		if all += c.N; c.Client == "198.51.100.9" {
			loop = c.N
		}
	}
	if all != 120 || loop == 0 { // one each half second, the first one a minute ago
		t.Errorf("%d samples, %d of the loop", all, loop)
	}
	if len(r.DeniedClients) != 1 || r.DeniedSampled != 128 {
		t.Fatalf("%d samples: %+v", r.DeniedSampled, r.DeniedClients)
	}
	if c := r.DeniedClients[0]; c.Client != "198.51.100.9" || c.Network != "198.51.100.0/24" || c.N != 128 ||
		len(c.Reasons) != 1 || c.Reasons[0].Name != "blocked" || len(c.Keys) != 1 || c.Keys[0].Name != "topic?id=1" {
		t.Errorf("%+v", c)
	}
	if r := b.Report(end.Add(2 * time.Minute)); len(r.Clients)+len(r.DeniedClients) > 0 {
		t.Errorf("of two minutes ago: %+v", r)
	}
}

// A report has method, host and redacted path of the sampled requests, so that other rules can be tried on them. It has
// no query. Of long requests only the number is known.
func TestReport_HasRequestsOfSampledClients(t *testing.T) {
	t.Parallel()
	b := build(t, `
redact: {token: mask}
rules:
  - {name: user, match: {path: "/user/{token}"}, params: [path.token], hot: {rate: 1}}
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}}
`, gate.Config{})
	b.Report(b.now)
	long := "/" + strings.Repeat("p", 300)
	for i, target := range []string{"/topic?id=1", "/topic?id=2", "/user/SECRET?x=1", long, "/other"} {
		r := request(target, "192.0.2.7")
		r.Method, r.Host = "POST", "news.example"
		b.Decide(t.Context(), b.now.Add(time.Duration(i)*time.Second), r)
	}
	got := b.Report(b.now.Add(5 * time.Second)).Clients
	want := []report.SampledClient{{Client: "192.0.2.7", N: 5, Requests: []report.NameCount{
		{Name: "POST news.example/other", N: 1}, {Name: "POST news.example/topic", N: 2},
		{Name: "POST news.example/user/masked", N: 1},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestReportKeepsDeniedClientsApart: each has its own number, network and key.
func TestReportKeepsDeniedClientsApart(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	clients, blocks := []string{"198.51.100.9", "203.0.113.4", "192.0.2.8"}, []rules.Override(nil)
	for _, c := range clients {
		blocks = append(blocks, rules.Override{ID: "no" + c, Client: c, Action: rules.ActionBlock})
	}
	b.SetOverrides(blocks)
	b.Report(b.now)
	for i := range 60 {
		c := min(i%4, 2) // the last one has half of them
		at := b.now.Add(time.Duration(i) * time.Second)
		b.Decide(t.Context(), at, request(fmt.Sprintf("/topic?id=%d", c), clients[c]))
	}
	found := b.Report(b.now.Add(59 * time.Second)).DeniedClients
	if len(found) != 3 || found[0].Client != clients[2] {
		t.Fatalf("%+v", found)
	}
	for _, f := range found {
		c := slices.Index(clients, f.Client)
		if f.N != []uint64{15, 15, 30}[c] || len(f.Keys) != 1 || f.Keys[0].Name != fmt.Sprintf("topic?id=%d", c) {
			t.Errorf("%+v", f)
		}
	}
}

// Keys whose metric name is a hash are reported whole while they are asked for, hot or not, within a bound of bytes.
func TestReportNamesLongKeys(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	b.Report(b.now)
	long := func(i int) string { return fmt.Sprintf("/topic?id=%02d%s", i, strings.Repeat("%E4%B8%AD", 60)) }
	for i := range 1000 {
		target := long(i / 2 % 40)
		if i%2 == 0 {
			target = long(7)
		}
		b.Decide(t.Context(), b.now.Add(time.Duration(i)*60*time.Millisecond), request(target, ""))
		b.Decide(t.Context(), b.now.Add(time.Duration(i)*60*time.Millisecond), request("/topic?id=1", ""))
	}
	end, bytes := b.now.Add(time.Minute), 0
	keys := b.Report(end).LongKeys
	for _, key := range keys {
		if bytes += len(key); !strings.HasPrefix(string(key), "topic?id=") || len(key) < 200 {
			t.Errorf("%s", key)
		}
	}
	if len(keys) != 16384/(11+9*60) || string(keys[0]) != "topic?id=07"+strings.Repeat("%E4%B8%AD", 60) {
		t.Errorf("%d keys of %d bytes: %s", len(keys), bytes, keys)
	}
	if keys := b.Report(end.Add(2 * time.Minute)).LongKeys; len(keys) > 0 {
		t.Errorf("of two minutes ago: %s", keys)
	}
}

// The first request after a fixed time is sampled, also after the clock was set back: of all requests of a client, of
// the requests that are denied because of the client, and of the requests for long keys.
func TestSamplesHaveTheirRates(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	b.SetOverrides([]rules.Override{{ID: "no", Client: "198.51.100.9", Action: rules.ActionBlock}})
	b.Report(b.now)
	n := 0
	ask := func(at time.Time) {
		n++
		target := fmt.Sprintf("/topic?id=%03d%s", n, strings.Repeat("%E4%B8%AD", 27))
		b.Decide(t.Context(), at, request(target, "198.51.100.9"))
	}
	for i := range 2000 {
		ask(b.now.Add(time.Duration(i) * time.Millisecond))
	}
	end := b.now.Add(2 * time.Second)
	for _, step := range []struct {
		at                time.Time
		all, denied, long int
	}{
		{end.Add(-1), 4, 40, 40},
		{end.Add(-time.Hour), 5, 41, 41},                           // set back
		{end.Add(-time.Hour + 50*time.Millisecond - 1), 5, 41, 41}, // too early
		{end.Add(-time.Hour + 50*time.Millisecond), 5, 42, 42},
		{end.Add(-time.Hour + 500*time.Millisecond - 1), 5, 43, 43},
		{end.Add(-time.Hour + 500*time.Millisecond), 6, 43, 43},
	} {
		ask(step.at)
		r := b.Report(step.at)
		if len(r.Clients) != 1 || int(r.Clients[0].N) != step.all || int(r.DeniedSampled) != step.denied ||
			len(r.LongKeys) != step.long {
			t.Errorf("at %v: %+v, %d denied, %d long keys, want %+v", step.at.Sub(b.now), r.Clients, r.DeniedSampled,
				len(r.LongKeys), step)
		}
	}
}

// TestReport_LeavesOutDenialsByOverridesOfKeys: a client to which the override of a key applies only requested the key.
// The override of a client is counted for every request of the client.
func TestReport_LeavesOutDenialsByOverridesOfKeys(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	b.SetOverrides([]rules.Override{
		{ID: "one", Key: "topic?id=1", Action: rules.ActionBlock},
		{ID: "two", Key: "topic?id=2", Action: rules.ActionLimit, Rate: 0.001, Burst: 1},
		{ID: "no", Client: "192.0.2.8", Action: rules.ActionBlock},
		{ID: "slow", Client: "192.0.2.9", Action: rules.ActionLimit, Rate: 0.001, Burst: 1},
	})
	b.Report(b.now)
	denied := uint64(0)
	for i := range 40 {
		at := b.now.Add(time.Duration(i) * time.Second)
		clients := []string{"198.51.100.1", "198.51.100.2", "192.0.2.8", "192.0.2.9"}
		for n := range clients {
			key := 1 + (n+i)%4 // each is the first one of a second, which is sampled
			client := clients[key-1]
			v := b.Decide(t.Context(), at, request(fmt.Sprintf("/topic?id=%d", key), client))
			if !v.Allowed && key > 2 {
				denied++
			}
		}
	}
	r := b.Report(b.now.Add(40 * time.Second))
	for _, c := range r.DeniedClients {
		if c.Client != "192.0.2.8" && c.Client != "192.0.2.9" {
			t.Errorf("%+v", c)
		}
	}
	if len(r.DeniedClients) != 2 || r.ClientDenials != denied || denied < 70 {
		t.Errorf("%d clients, %d denials of %d", len(r.DeniedClients), r.ClientDenials, denied)
	}
}
