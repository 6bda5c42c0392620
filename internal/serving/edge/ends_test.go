package edge_test

import (
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/edge"
	"github.com/hotparam/pipeline/internal/serving/held"
)

const costRules = `
rules:
  - {name: report, match: {path: /report}, params: [filter], cost: time, hot: {rate: 1s}, limit: {algorithm: in_flight, limit: 1}}
  - {name: find, match: {path: /find}, params: [q], cost: response.X-Cost, hot: {rate: 100}}
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 9}}
ip: {trusted_proxies: [10.9.0.0/16]}
`

// Gateways learn which rules count by a cost, and by which word they promise to report the ends of requests.
func TestFeed_NamesRulesWithCosts(t *testing.T) {
	t.Parallel()
	s := newSite(t, costRules)
	ends := held.New(s.gate)
	f := edge.NewFeed(edge.Config{Gate: s.gate, Hot: s.hot, Ends: ends})
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/edge", nil))
	if got := w.Body.String(); !strings.Contains(got, "\nreports "+ends.Secret()+"\n") ||
		!strings.Contains(got, "\ncost - report\ncost X-Cost find\n") || strings.Contains(got, "topic") {
		t.Errorf("the feed: %s", got)
	}
}

// The cost of a request that passed without a question counts when it is reported. Without the promise to report it the
// mean counts at once, as for requests that were denied or answered from a cache.
func TestCount_CountsReportedCosts(t *testing.T) {
	t.Parallel()
	s := newSite(t, costRules)
	count := func(lines string, want int64) {
		t.Helper()
		s.feed.Count(t.Context(), []byte(lines))
		if got := s.count["report?filter=full 192.0.2.1"]; got != want {
			t.Errorf("%q: %d µs counted, want %d", lines, got, want)
		}
	}
	count("~c0000201 report?filter=full\n", 0)
	count(">200,800,512,-,c0000201 report?filter=full\n", 800_000)
	count("~c0000201 report?filter=full\n", 800_000)
	count(">499,100,0,-,c0000201 report?filter=full\n", 1_600_000) // it left: the mean at least
	count(">502,-,0,-,c0000201 report?filter=full\n", 2_400_000)   // unknown: the mean
	count("+c0000201 report?filter=full\n", 3_200_000)
	count("-c0000201 report?filter=full\n", 4_000_000)
	count("=c0000201 report?filter=full\n", 4_800_000)
	count("^200,900,0,-,c0000201 report?filter=full\n", 4_900_000) // beyond the mean, which counted already
	count("^200,-,0,-,c0000201 report?filter=full\n^200,1,0,-,c0000201 report?filter=full\n", 4_900_000)
	s.feed.Count(t.Context(), []byte(">200,5,1,2.5,c0000201 find?q=a\n>200,5,1,2.5,c0000201 topic?id=1\n"+
		">200,7,1,2,0a090001 report?filter=b\n"))
	if s.count["find?q=a 192.0.2.1"] != 2500 || s.count["topic?id=1 192.0.2.1"] != 0 ||
		s.count["report?filter=b -"] != 7000 {
		t.Errorf("counted: %v", s.count)
	}
	if n := s.feed.Stats().Invalid; n != 0 {
		t.Errorf("%d lines are invalid", n)
	}
	bad := []string{">200,-1,0,-,c0000201 report?filter=full", ">200,1e9,0,-,c0000201 report?filter=full",
		">200,NaN,0,-,c0000201 report?filter=full", ">x,1,0,-,c0000201 report?filter=full",
		">200,1,0,c0000201 report?filter=full", ">200,1,0,-,c00002 report?filter=full", ">200,1,0,-,c0000201 ",
		">200,1,0,-,c0000201 report?filter=\x01", "<200,1,0,- x", "<200,1,0,-,c0000201 7", "<200,1,0 7", "> ", "< "}
	count(strings.Join(bad, "\n"), 4_900_000)
	if n := s.feed.Stats().Invalid; n != uint64(len(bad)) {
		t.Errorf("%d of %d malformed lines are counted", n, len(bad))
	}
}

// A request that has a number holds its slot until the gateway reports its end.
func TestCount_EndsHeldRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t, costRules)
	s.publish(1, "report?filter=full")
	ends := held.New(s.gate)
	f := edge.NewFeed(edge.Config{Gate: s.gate, Hot: s.hot, Ends: ends, Now: func() time.Time { return s.now }})
	next := uint64(0xa0)
	ask := func() (bool, uint64) {
		next++
		v, number := ends.Decide(t.Context(), s.now, &hottype.Request{Target: "/report?filter=full"}, ends.Secret()+fmt.Sprintf("-%016x", next))
		return v.Allowed, number
	}
	_, number := ask()
	if allowed, other := ask(); number == 0 || allowed || other != 0 {
		t.Fatalf("the first has number %d; the second passes: %t, number %d", number, allowed, other)
	}
	f.Count(t.Context(), []byte("<200,30.5,512,- "+strconv.FormatUint(number, 16)+"\n"))
	if allowed, _ := ask(); !allowed || s.count["report?filter=full -"] != 30_500 {
		t.Errorf("after the end: passes %t, counted %v", allowed, s.count)
	}
}
