package replay_test

import (
	"cmp"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// event is one line of a log as the model sees it.
type event struct {
	second      int64
	client, key string
}

// modelled reads events independently: net/url sorts by name, which is enough for queries without repeated names.
func modelled(lines []string) []event {
	var all []event
	for _, l := range lines {
		f := strings.Split(l, "\t")
		second, _ := strconv.ParseInt(f[0], 10, 64)
		u, _ := url.Parse(f[3])
		key := u.Path
		if q := u.Query().Encode(); q != "" {
			key += "?" + q
		}
		all = append(all, event{second, strings.ReplaceAll(f[1], "2001:db8::1", "2001:db8::"), key})
	}
	return all
}

// within counts the events of the width seconds that end with second for which
// test is true.
func within(all []event, second, width int64, test func(event) bool) (n int64) {
	for _, e := range all {
		if e.second <= second && e.second > second-width && test(e) {
			n++
		}
	}
	return n
}

// peak returns the highest count of events in width successive seconds for which test is true, and the first second at
// which such a peak ends.
func peak(all []event, width int64, test func(event) bool) (most, at int64) {
	at = math.MaxInt64
	for _, e := range all {
		n := within(all, e.second, width, test)
		if n > most || n == most && e.second < at {
			most, at = n, e.second
		}
	}
	return most, at
}

func modelKeys(all []event) []replay.Key {
	keys := map[string]replay.Key{}
	for _, e := range all {
		k := replay.Key{Key: hottype.Key(e.key)}
		same := func(o event) bool { return o.key == e.key }
		k.Requests = within(all, math.MaxInt64, math.MaxInt64, same)
		k.Peak1s, k.Peak1sAt = peak(all, 1, same)
		k.Peak5s, k.Peak5sAt = peak(all, 5, same)
		keys[e.key] = k
	}
	return slices.SortedFunc(maps.Values(keys), func(a, b replay.Key) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Key, b.Key))
	})
}

// modelClients models the fixed window: it allows limit requests in each second,
// and does not limit requests without an address.
func modelClients(all []event, limit int64) (list []replay.Client, denied uint64) {
	clients := map[string]replay.Client{}
	for _, e := range all {
		c := replay.Client{Client: e.client}
		same := func(o event) bool { return o.client == e.client }
		c.Requests = within(all, math.MaxInt64, math.MaxInt64, same)
		c.Peak1s, c.Peak1sAt = peak(all, 1, same)
		c.Peak60s, c.Peak60sAt = peak(all, 60, same)
		seconds := map[int64]bool{}
		for _, o := range all {
			if e.client != "-" && !seconds[o.second] {
				c.Denied += max(within(all, o.second, 1, same)-limit, 0)
			}
			seconds[o.second] = true
		}
		clients[e.client] = c
	}
	for _, c := range clients {
		denied += uint64(c.Denied)
	}
	return slices.SortedFunc(maps.Values(clients), func(a, b replay.Client) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Client, b.Client))
	}), denied
}

func modelHotSeconds(all []event, threshold int64) map[int64][]hottype.Key {
	hot := map[int64][]hottype.Key{}
	for _, at := range all {
		over := map[hottype.Key]bool{}
		for _, e := range all {
			if within(all, at.second, 5, func(o event) bool { return o.key == e.key }) >= threshold {
				over[hottype.Key(e.key)] = true
			}
		}
		if len(over) > 0 {
			hot[at.second] = slices.Sorted(maps.Keys(over))
		}
	}
	return hot
}

// The report is equal to a recount of all events for every number.
func TestRun_EqualsModel(t *testing.T) {
	t.Parallel()
	set := parse(t, plain("0.6")+"ip: {fixed: {limit: 2, window: 1s}}\n")
	rapid.Check(t, func(rt *rapid.T) {
		lines := drawEvents(rt)
		all := modelled(lines)
		got := numbers(rt, set, lines)
		want := &replay.Report{
			Requests: int64(len(all)), Lines: int64(len(all)),
			First:      slices.MinFunc(all, func(a, b event) int { return cmp.Compare(a.second, b.second) }).second,
			Last:       slices.MaxFunc(all, func(a, b event) int { return cmp.Compare(a.second, b.second) }).second,
			Keys:       modelKeys(all),
			HotSeconds: modelHotSeconds(all, 3),
			Hot:        got.Hot, Loops: got.Loops, Timeline: got.Timeline, Broken: got.Broken, // tested elsewhere
		}
		want.Clients, want.Denied[hottype.ReasonIPFixed] = modelClients(all, 2)
		for _, rate := range []int64{5, 20, 50, 200, 1000} {
			n := int64(0)
			for _, k := range want.Keys {
				if k.Peak5s >= 5*rate {
					n++
				}
			}
			want.HotAt = append(want.HotAt, replay.ThresholdCount{Rate: rate, Keys: n})
		}
		want.DistinctKeys, want.DistinctClients = len(want.Keys), len(want.Clients)
		if diff := gocmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}
