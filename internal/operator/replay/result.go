package replay

import (
	"cmp"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// busiest is how many of the busiest keys and clients are in a report, and highest is how many of the highest peaks.
const (
	busiest = 1000
	highest = 100
)

// report returns the report of all requests judged so far. It ends the replay: hot keys cool.
func (e *engine) report() Report {
	rep := e.totals
	rep.Hot, rep.Loops = e.finish()
	rep.HotSeconds, rep.NoCosts = e.seconds.bySecond, e.rulesWithoutCosts()
	rep.Keys = e.topKeys()
	rep.HotAt = e.thresholdCounts()
	rep.Clients = e.topClients()
	rep.DistinctKeys, rep.DistinctClients = len(e.keys.names), len(e.clients.names)
	rep.Dropped = Dropped{
		Keys: e.keys.dropped, Clients: e.clients.dropped, Spans: e.spans.dropped + e.loops.dropped,
		HotSeconds: e.seconds.dropped, Uncertain: e.uncertain,
	}
	return rep
}

func (r *replayer) addReadNumbers(rep *Report) {
	rep.Lines, rep.Late, rep.Broken = r.lines, r.order.late, slices.Clip(r.broken)
	rep.Dropped.EarlySeconds = r.order.early
	for i, s := range r.sources {
		o := r.origins[i]
		o.Lines, o.Bytes, o.Refused = s.line, s.raw.n, s.refused.mostFrequent()
		rep.Sources = append(rep.Sources, o)
		rep.Malformed += o.Malformed
	}
}

// replaceNilLists replaces nil lists by empty ones, because they differ in JSON.
func (r *Report) replaceNilLists() *Report {
	r.Hot, r.Loops, r.Keys, r.Clients = orEmpty(r.Hot), orEmpty(r.Loops), orEmpty(r.Keys), orEmpty(r.Clients)
	r.Sources, r.Broken, r.HotAt = orEmpty(r.Sources), orEmpty(r.Broken), orEmpty(r.HotAt)
	t := &r.Timeline
	t.Requests, t.Denied, t.Peak = orEmpty(t.Requests), orEmpty(t.Denied), orEmpty(t.Peak)
	return r
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (e *engine) thresholdCounts() []ThresholdCount {
	all := []ThresholdCount{{Rate: 5}, {Rate: 20}, {Rate: 50}, {Rate: 200}, {Rate: 1000}}
	for i := range e.keys.rows {
		for j := range all {
			if int64(e.keys.rows[i].wide) >= peakSeconds*all[j].Rate {
				all[j].Keys++
			}
		}
	}
	return all
}

func (e *engine) topKeys() []Key {
	ids := e.keys.topIDs(busiest, byRequests, e.keys.names)
	keys := make([]Key, len(ids))
	for i, id := range ids {
		r := &e.keys.rows[id]
		keys[i] = Key{
			Key: hottype.Key(e.keys.names[id]), Requests: r.requests, Denied: r.denied,
			Peak1s: int64(r.peak), Peak5s: int64(r.wide), Peak1sAt: r.peakAt, Peak5sAt: r.wideAt,
		}
	}
	return keys
}

// topClients returns the busiest clients, and the clients with the highest peaks, because per-IP windows are for
// crawlers that come once, which are rarely among the busiest.
func (e *engine) topClients() []Client {
	texts := make([]string, len(e.clients.names))
	for i, c := range e.clients.names {
		texts[i] = c.String()
	}
	ids := e.clients.topIDs(busiest, byRequests, texts)
	ids = append(ids, e.clients.topIDs(highest, byPeak, texts)...)
	ids = append(ids, e.clients.topIDs(highest, byWide, texts)...)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	clients := make([]Client, len(ids))
	for i, id := range ids {
		r := &e.clients.rows[id]
		clients[i] = Client{
			Client: texts[id], Requests: r.requests, Denied: r.denied,
			Peak1s: int64(r.peak), Peak60s: int64(r.wide), Peak1sAt: r.peakAt, Peak60sAt: r.wideAt,
		}
	}
	slices.SortFunc(clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Client, b.Client))
	})
	return clients
}

// maxSteps is the length of a timeline at which its step doubles.
const maxSteps = 2048

// Timeline is the course of a log in at most maxSteps steps of equal length.
type Timeline struct {
	// From is the unix second at which the first step begins.
	From int64 `json:"from"`
	// Step is the length of a step in seconds, a power of two.
	Step int64 `json:"step"`
	// Requests and Denied are the totals of each step.
	Requests []int64 `json:"requests"`
	Denied   []int64 `json:"denied"`
	// Peak is the number of requests in the busiest second of each step.
	Peak []int64 `json:"peak_1s"`
}

// add records one second. Seconds come in order.
func (t *Timeline) add(second, requests, denied int64) {
	if t.Step == 0 {
		t.From, t.Step = second, 1
	}
	i := (second - t.From) / t.Step
	for ; i >= maxSteps; i /= 2 {
		t.doubleStep()
	}
	for int64(len(t.Requests)) <= i {
		t.Requests, t.Denied, t.Peak = append(t.Requests, 0), append(t.Denied, 0), append(t.Peak, 0)
	}
	t.Requests[i] += requests
	t.Denied[i] += denied
	t.Peak[i] = max(t.Peak[i], requests)
}

func (t *Timeline) doubleStep() {
	half := (len(t.Requests) + 1) / 2
	for i := range half {
		requests, denied, peak := t.Requests[2*i], t.Denied[2*i], t.Peak[2*i]
		if j := 2*i + 1; j < len(t.Requests) {
			requests, denied, peak = requests+t.Requests[j], denied+t.Denied[j], max(peak, t.Peak[j])
		}
		t.Requests[i], t.Denied[i], t.Peak[i] = requests, denied, peak
	}
	t.Requests, t.Denied, t.Peak = t.Requests[:half], t.Denied[:half], t.Peak[:half]
	t.Step *= 2
}
