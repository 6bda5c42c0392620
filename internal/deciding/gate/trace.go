package gate

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/report"
)

const (
	traceFor      = time.Minute // for which a client is traced, unless the command is repeated
	maxTraces     = 8           // at a time; a further client replaces the one whose trace ends first
	maxTraceRows  = 200         // different keys with their verdicts; further keys are only counted
	reportedTrace = 50          // rows of a report
)

// traces holds the clients that a person follows, with the keys that each requests and the decisions. Requests cost one
// atomic load while no client is traced, and a few comparisons while some are.
type traces struct {
	of atomic.Pointer[[]*trace] // nil if there are no traces; replaced, never changed
	mu sync.Mutex               // held while the list changes
}

type trace struct {
	name    string // as the command names it
	client  hottype.Client
	network netip.Prefix // in place of client, if it is valid
	until   atomic.Int64 // unix ns

	mu   sync.Mutex // guards all below
	n    uint64
	rows map[traceRow]*tracedCount
}

type traceRow struct {
	key     hottype.Key
	allowed bool
	reason  hottype.Reason
}

type tracedCount struct {
	n    uint64
	last time.Time
}

// Trace records for a minute the keys that a client requests and the decisions, for reports. A client whose name is a
// network stands for all clients in it.
func (g *Gate) Trace(now time.Time, c hottype.Client) {
	t := &trace{name: c.String(), client: c, rows: map[traceRow]*tracedCount{}}
	if p, err := netip.ParsePrefix(c.Name); err == nil {
		t.network = p.Masked()
	}
	g.traces.mu.Lock()
	defer g.traces.mu.Unlock()
	list := g.traces.liveTraces(now)
	if i := slices.IndexFunc(list, func(other *trace) bool { return other.name == t.name }); i >= 0 {
		list[i].until.Store(now.Add(traceFor).UnixNano())
	} else {
		t.until.Store(now.Add(traceFor).UnixNano())
		if list = append(list, t); len(list) > maxTraces {
			first := slices.MinFunc(list, func(a, b *trace) int { return cmp.Compare(a.until.Load(), b.until.Load()) })
			list = slices.DeleteFunc(list, func(other *trace) bool { return other == first })
		}
	}
	g.traces.of.Store(&list)
}

// liveTraces returns a copy of the list, without the traces that have ended.
func (t *traces) liveTraces(now time.Time) []*trace {
	of := t.of.Load()
	if of == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(*of), func(one *trace) bool { return now.UnixNano() >= one.until.Load() })
}

func (t *traces) record(d *decision, v *verdict.Verdict) {
	of := t.of.Load()
	if of == nil {
		return
	}
	for _, one := range *of {
		if one.matches(d.client) && d.now.UnixNano() < one.until.Load() {
			one.add(d, v)
		}
	}
}

func (t *trace) matches(c hottype.Client) bool {
	if t.network.IsValid() {
		return t.network.Contains(c.Addr)
	}
	return t.client == c
}

func (t *trace) add(d *decision, v *verdict.Verdict) {
	row := traceRow{allowed: v.Allowed, reason: v.Reason}
	if len(d.matches) > 0 {
		row.key = hottype.Key(d.matches[0].Key)
	}
	if len(row.key) > sampledKeyBytes {
		row.key = hottype.Key(row.key.Resource()[:min(len(row.key.Resource()), sampledKeyBytes)])
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	count := t.rows[row]
	if count == nil {
		if len(t.rows) >= maxTraceRows {
			return
		}
		row.key = hottype.Key(strings.Clone(string(row.key)))
		count = &tracedCount{}
		t.rows[row] = count
	}
	count.n, count.last = count.n+1, d.now
}

// report returns the recorded requests, and removes the traces that have ended.
func (t *traces) report(now time.Time) []report.ClientTrace {
	if t.of.Load() == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	live := t.liveTraces(now)
	if len(live) == 0 {
		t.of.Store(nil)
		return nil
	}
	t.of.Store(&live)
	list := make([]report.ClientTrace, len(live))
	for i, one := range live {
		list[i] = one.report()
	}
	return list
}

func (t *trace) report() report.ClientTrace {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := report.ClientTrace{Client: t.name, Until: time.Unix(0, t.until.Load()).UTC(), N: t.n}
	for row, count := range t.rows {
		r.Rows = append(r.Rows,
			report.TracedKey{Key: row.key, Allowed: row.allowed, Reason: row.reason, N: count.n, Last: count.last})
	}
	slices.SortFunc(r.Rows, func(a, b report.TracedKey) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Reason, b.Reason))
	})
	r.Rows = r.Rows[:min(len(r.Rows), reportedTrace)]
	return r
}
