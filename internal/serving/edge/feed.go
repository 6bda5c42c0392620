package edge

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// Gate decides about the requests that a gateway sends. *gate.Gate is one.
type Gate interface {
	Passed(now time.Time, r gate.PassedRequests)
	EndPassed(now time.Time, key []byte, client hottype.Client, given costs.Given, meanCounted bool)
	ChargeClient(ctx context.Context, now time.Time, client hottype.Client, n int64) hottype.Verdict
	Rules() *rules.Set
	// Changes returns a number that every change of rules or overrides increases, and Overrides also the overrides.
	Changes() uint64
	Overrides() (list []rules.Override, changes uint64)
}

// Config holds the settings of a feed.
type Config struct {
	Gate Gate            // required
	Hot  *hotset.Replica // required
	// Ends ends the requests about which gateways have asked; nil means that they do not report them.
	Ends Ends
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives polls of gateways with other rules; nil discards them.
	Log *slog.Logger
}

const (
	tick       = 20 * time.Millisecond // between two checks for changes
	expiryTick = time.Second           // between two checks for expired entries
	maxEntries = 20_000                // a bound of the keys and clients
	maxBytes   = 2 << 20               // a bound of their bytes
	maxLog     = 2 * maxEntries        // a bound of the remembered changes
)

// Feed lists the keys and clients about which gateways have to ask, with a version. Any number of goroutines may use
// it.
type Feed struct {
	cfg   Config
	epoch string // part of this process's versions

	mu           sync.Mutex // guards the fields below
	seq          uint64
	entries      map[string]entry
	log          []change // of the entries, oldest first
	forgot       uint64   // number of the newest change that is no longer in log
	suspects     map[hottype.Client]time.Time
	rulesVersion string // version of the rules
	askAll       string // why everything is asked about; "" if it is not
	// The length in bytes above which gateways ask about every key; 0 if there is none.
	longest int
	changed chan struct{} // closed by the next change

	seen        [2]uint64 // the changes of the hot set and of the gate that entries includes
	refreshedAt time.Time
	dirty       bool // suspects have changed

	counters
}

// entry is a gateway's treatment of a key or a client. block, if set, is the override that blocks the key, until time
// until or for good.
type entry struct {
	act   action
	block string
	until time.Time
}

type action byte

// Treatments of keys and clients that are not blocked.
const (
	ask      action = 'a'
	remember action = 'd' // ask; a denial is valid for all clients until its retry time
	cached   action = 'c' // answer from the gateway's cache, and ask if that lacks the answer
)

// hotKeyAction returns the treatment of a hot key. A denial to a class of clients is not valid for classes before it.
func hotKeyAction(set *rules.Set, key hottype.Key) action {
	r := set.RuleFor(key.Resource())
	if r == nil {
		return ask
	}
	if r.Cache != nil {
		return cached
	}
	if l := r.LimitFor(key); l.Fair || l.Adaptive != nil || l.InFlight != nil || len(l.Priority) > 0 {
		return ask
	}
	return remember
}

type change struct {
	seq  uint64
	name string // "k " and a key, or "c " and a client
}

type counters struct {
	polls, counted, lost, invalid, differing, suspected atomic.Uint64
}

// Stats are the counters of a feed since it was built, and its size.
type Stats struct {
	Polls     uint64 `metric:"hotparam_edge_polls_total" help:"Polls of gateways that decide themselves."`
	Entries   int64  `metric:"hotparam_edge_entries" help:"Keys and clients that gateways ask about."`
	AskAll    int64  `metric:"hotparam_edge_ask_all" help:"1 while gateways must ask about every request."`
	Differing uint64 `metric:"hotparam_edge_other_rules_total" help:"Polls of gateways whose file was written from other rules."`
	Counted   uint64 `metric:"hotparam_edge_counted_total" help:"Requests that gateways decided without asking."`
	Lost      uint64 `metric:"hotparam_edge_lost_total" help:"Requests that gateways decided without asking and did not count."`
	Invalid   uint64 `metric:"hotparam_edge_invalid_total" help:"Malformed counts of gateways."`
	Suspected uint64 `metric:"hotparam_edge_suspects_total" help:"Clients that gateways began to ask about because they send many requests."`
}

func (f *Feed) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := Stats{Polls: f.polls.Load(), Entries: int64(len(f.entries)), Differing: f.differing.Load(),
		Counted: f.counted.Load(), Lost: f.lost.Load(), Invalid: f.invalid.Load(), Suspected: f.suspected.Load()}
	if f.askAll != "" {
		st.AskAll = 1
	}
	return st
}

func NewFeed(cfg Config) *Feed {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	f := &Feed{cfg: cfg, epoch: strconv.FormatInt(cfg.Now().UnixMicro(), 36), entries: map[string]entry{},
		suspects: map[hottype.Client]time.Time{}, changed: make(chan struct{})}
	f.Refresh()
	return f
}

// Run refreshes the feed until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			f.Refresh()
		}
	}
}

// Refresh compares the hot, overridden and suspected keys and clients with the entries that gateways know, and wakes
// the polls that wait for changes.
func (f *Feed) Refresh() {
	now := f.cfg.Now()
	seen := [2]uint64{f.cfg.Hot.Changes(), f.cfg.Gate.Changes()}
	f.mu.Lock()
	defer f.mu.Unlock()
	if seen == f.seen && !f.dirty && now.Sub(f.refreshedAt) < expiryTick {
		return
	}
	set := f.cfg.Gate.Rules()
	overrides, changes := f.cfg.Gate.Overrides()
	seen[1] = changes
	before := f.seq
	if f.seen[1] != changes || f.rulesVersion == "" {
		if version := Version(set); version != f.rulesVersion {
			f.rulesVersion = version
			f.seq++
		}
	}
	f.seen, f.refreshedAt, f.dirty = seen, now, false
	wanted, longest, askAll := f.wantedEntries(now, set, overrides)
	if f.cfg.Hot.Aliases() {
		longest = shortKey
	}
	if askAll != f.askAll || longest != f.longest {
		f.askAll, f.longest = askAll, longest
		f.seq++
	}
	f.update(wanted)
	if f.seq != before {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// shortKey is the length up to which keys are never published under an alias.
const shortKey = 64

// longKey is the length up to which a hot key is listed. Without this bound a client that heats long keys would fill
// the list, and gateways would ask about everything.
const longKey = 1024

// update replaces the entries by wanted and records the changes.
func (f *Feed) update(wanted map[string]entry) {
	for name, e := range wanted {
		if old, ok := f.entries[name]; !ok || old != e {
			f.seq++
			f.log = append(f.log, change{f.seq, name})
		}
	}
	for name := range f.entries {
		if _, ok := wanted[name]; !ok {
			f.seq++
			f.log = append(f.log, change{f.seq, name})
		}
	}
	f.entries = wanted
	if len(f.log) > maxLog {
		f.forgot = f.log[len(f.log)-maxLog/2-1].seq
		f.log = append([]change(nil), f.log[len(f.log)-maxLog/2:]...)
	}
}

// wantedEntries returns the entries for gateways, the length above which hot keys are not listed, or 0 if all are, and
// the reason why gateways have to ask about everything, or "" if they do not.
func (f *Feed) wantedEntries(now time.Time, set *rules.Set, overrides []rules.Override) (
	_ map[string]entry, longest int, askAll string) {
	askAll = unsupportedPart(set)
	list, size := map[string]entry{}, 0
	add := func(name string, e entry) {
		if size += len(name); size > maxBytes || len(list) >= maxEntries {
			askAll = "there are too many keys"
			return
		}
		list[name] = e
	}
	for i := range overrides {
		o := &overrides[i]
		switch network := o.Network(); {
		case o.Expired(now):
		case o.IsOneKey():
			name, e := "k "+o.Key, entry{act: ask}
			if o.Action == rules.ActionLimit && hotKeyAction(set, hottype.Key(o.Key)) == remember {
				e.act = remember
			}
			_, several := list[name]
			if !several && o.Action == rules.ActionBlock && o.Schedule.IsZero() && !o.InShadow() {
				e = entry{block: cmp.Or(o.ID, o.DefaultID()), until: o.Until}
			}
			if several {
				e = entry{act: ask}
			}
			add(name, e)
		case network.IsValid() && (network.IsSingleIP() || network.Addr().Is6() && network.Bits() >= 64):
			add("c "+clientText(set, network.Addr()), entry{act: ask})
		default:
			askAll = "override " + cmp.Or(o.ID, o.DefaultID())
		}
	}
	for _, e := range f.cfg.Hot.Entries(now) {
		key := e.Key()
		if len(key) > longKey {
			longest = longKey
			continue
		}
		if _, overridden := list["k "+string(key)]; !overridden {
			add("k "+string(key), entry{act: hotKeyAction(set, key)})
		}
	}
	for c, until := range f.suspects {
		if !now.Before(until) {
			delete(f.suspects, c)
			continue
		}
		add("c "+clientText(set, c.Addr), entry{act: ask})
	}
	return list, longest, askAll
}
