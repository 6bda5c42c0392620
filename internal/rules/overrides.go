package rules

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/netset"
)

// Overrides is an immutable index over overrides, shared freely. A nil *Overrides is empty. Find costs one look-up, and
// for patterns, if there are many, one look-up for each byte of the key. FindClient costs one look-up of the longest
// prefix. Only the index of WithShadow contains the overrides in shadow mode.
type Overrides struct {
	exact    map[string][]*entry
	patterns []*entry
	// byGram holds the positions of patterns by three bytes that every key they match contains, and ungrammed the
	// positions of the other patterns. If there are few patterns, all are in ungrammed.
	byGram    map[[3]byte][]int
	ungrammed []int
	// blocks holds the exact overrides that block, by resource. Under anyPath it holds the overrides of all paths.
	blocks map[string][]*entry
	// resources holds the overrides of whole resources, and blockedPaths its overrides that block a path.
	resources    map[string][]*entry
	blockedPaths []*entry
	// networks finds the overrides of clients and CIDRs, or is nil if there are none. classes holds overrides by class.
	networks  netset.Table // positions in byNetwork
	byNetwork [][]*entry
	classes   map[string][]*entry
	// tried indexes all overrides as if overrides in shadow mode were enforced. It is nil if no override is in shadow
	// mode.
	tried *Overrides
}

type entry struct {
	override Override
	live     bool
	glob     canon.Glob
	literal  int
	plan     *scheduleCache // nil if it always holds
}

func (e *entry) holds(now time.Time) bool {
	return !e.override.Expired(now) && (e.plan == nil || e.plan.holds(now))
}

// NewOverrides indexes the overrides of the configuration file and the live overrides. It keeps copies.
func NewOverrides(static, live []Override) *Overrides {
	o := index(static, live, false)
	if slices.ContainsFunc(static, Override.InShadow) || slices.ContainsFunc(live, Override.InShadow) {
		o.tried = index(static, live, true)
	}
	return o
}

// WithShadow returns the index as it would be if every override in shadow mode were enforced, or nil if no override is
// in shadow mode. An override in shadow mode that is found in it would decide.
func (o *Overrides) WithShadow() *Overrides { return o.tried }

func index(static, live []Override, tried bool) *Overrides {
	o := &Overrides{
		exact: map[string][]*entry{}, blocks: map[string][]*entry{}, resources: map[string][]*entry{},
		classes: map[string][]*entry{},
	}
	networks := map[netip.Prefix][]*entry{}
	for i, v := range slices.Concat(static, live) {
		if tried || !v.InShadow() {
			o.add(v, i >= len(static), networks)
		}
	}
	for _, lists := range []map[string][]*entry{o.exact, o.resources, o.classes} {
		for _, entries := range lists {
			slices.SortStableFunc(entries, before)
		}
	}
	slices.SortStableFunc(o.patterns, before)
	o.indexPatterns()
	if len(networks) > 0 {
		o.networks = netset.NewTable()
	}
	for network, entries := range networks {
		slices.SortStableFunc(entries, before)
		o.networks.Insert(network, len(o.byNetwork))
		o.byNetwork = append(o.byNetwork, entries)
	}
	return o
}

func (o *Overrides) add(v Override, live bool, networks map[netip.Prefix][]*entry) {
	e := &entry{override: v, live: live}
	if !v.Schedule.IsZero() {
		e.plan = &scheduleCache{schedule: v.Schedule}
	}
	switch {
	case v.Client != "" || v.CIDR != "":
		if n := v.Network(); n.IsValid() {
			networks[n] = append(networks[n], e)
		}
	case v.Class != "":
		o.classes[v.Class] = append(o.classes[v.Class], e)
	case v.Resource != "":
		o.resources[v.Resource] = append(o.resources[v.Resource], e)
		if v.Action == ActionBlock && isPath(v.Resource) {
			o.blockedPaths = append(o.blockedPaths, e)
		}
	case v.IsPattern():
		e.glob = canon.NewGlob(v.Key)
		e.literal = e.glob.Literal()
		o.patterns = append(o.patterns, e)
	default:
		o.exact[v.Key] = append(o.exact[v.Key], e)
		if v.Action == ActionBlock {
			resource := hottype.Key(v.Key).Resource()
			o.blocks[resource] = append(o.blocks[resource], e)
			if resource != anyPath && isPath(resource) {
				o.blocks[anyPath] = append(o.blocks[anyPath], e)
			}
		}
	}
}

// anyPath is the resource under which the catch-all counts a target that upstreams may read as any path. Other
// resources of the catch-all are paths, and resources of other rules do not begin with a slash.
const anyPath = "/"

func isPath(resource string) bool { return strings.HasPrefix(resource, anyPath) }

// OfKeys reports whether there are overrides of keys, patterns or resources.
func (o *Overrides) OfKeys() bool { return len(o.exact)+len(o.patterns)+len(o.resources) > 0 }

// OfClients reports whether there are overrides of addresses, networks or classes.
func (o *Overrides) OfClients() bool { return o.networks != nil || len(o.classes) > 0 }

// FindClient returns the override that holds for an address, or nil if there is none. Of several it returns the
// override of the longest prefix, and of equal prefixes the live override. It does not allocate.
func (o *Overrides) FindClient(a netip.Addr, now time.Time) *Override {
	if o == nil || o.networks == nil || !a.IsValid() {
		return nil
	}
	for bits := a.BitLen(); bits >= 0; { // an override that does not hold now hides no shorter prefix
		network, at, found := o.networks.LookupPrefixLPM(netip.PrefixFrom(a, bits))
		if !found {
			return nil
		}
		if best := first(o.byNetwork[at], now); best != nil {
			return best
		}
		bits = network.Bits() - 1
	}
	return nil
}

// FindClass returns the override that holds for a class, or nil if there is none.
func (o *Overrides) FindClass(name string, now time.Time) *Override {
	if o == nil || name == "" {
		return nil
	}
	return first(o.classes[name], now)
}

// before orders overrides that hold for the same key: live overrides first, then the most specific, then overrides with
// a schedule, then overrides in shadow mode, which would replace the others if they were enforced, then the newest,
// then by ID, so that all processes agree.
func before(a, b *entry) int {
	return cmp.Or(
		trueFirst(a.live, b.live),
		cmp.Compare(b.literal, a.literal),
		trueFirst(a.plan != nil, b.plan != nil),
		cmp.Compare(b.override.Mode, a.override.Mode),
		b.override.Created.Compare(a.override.Created),
		cmp.Compare(a.override.ID, b.override.ID),
	)
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// Find returns the override that holds for a key, or nil if there is none. The order is: live exact, file exact, live
// pattern, file pattern, live resource, file resource; among patterns the pattern with the most literal bytes is first.
// Overrides that have expired, and overrides whose schedule does not hold, are skipped. Find allocates only if a window
// of a schedule begins or ends. The result is shared and must not be changed.
//
// A malformed request may be for any key of its resource, so that an override that blocks one of these keys blocks the
// request too, before patterns that match the reserved key.
func (o *Overrides) Find(key []byte, now time.Time) *Override {
	if o == nil {
		return nil
	}
	exact := first(o.exact[string(key)], now)
	if (exact == nil || exact.KeepsLimit()) && canon.IsMalformed(key) {
		if block := o.blocking(key[:len(key)-len(canon.Malformed)-1], now); block != nil {
			return block
		}
	}
	if exact != nil {
		return exact
	}
	if p := o.findPattern(key, now); p != nil {
		return p
	}
	if len(o.resources) > 0 {
		resource, _, _ := bytes.Cut(key, []byte{'?'})
		return first(o.resources[string(resource)], now)
	}
	return nil
}

// first returns the first override of a list that holds, or nil if no override holds.
func first(list []*entry, now time.Time) *Override {
	for _, e := range list {
		if e.holds(now) {
			return &e.override
		}
	}
	return nil
}

// blocking returns an override that blocks a key of a resource, or nil if there is none. The resource anyPath has the
// keys of all paths. Overrides that another override of the same text replaces are skipped.
func (o *Overrides) blocking(resource []byte, now time.Time) *Override {
	ofAnyPath := string(resource) == anyPath
	for _, e := range o.blocks[string(resource)] {
		if b := &e.override; first(o.exact[b.Key], now) == b {
			return b
		}
	}
	for i, e := range o.patterns {
		b := &e.override
		within := e.glob.MatchesWithin(resource) || ofAnyPath && isPath(b.Key)
		if b.Action != ActionBlock || !within || !e.holds(now) {
			continue
		}
		replaced := slices.ContainsFunc(o.patterns[:i],
			func(e *entry) bool { return e.override.Key == b.Key && e.holds(now) })
		if !replaced {
			return b
		}
	}
	if b := first(o.resources[string(resource)], now); b != nil && b.Action == ActionBlock {
		return b
	}
	if ofAnyPath {
		for _, e := range o.blockedPaths {
			if b := &e.override; first(o.resources[b.Resource], now) == b {
				return b
			}
		}
	}
	return nil
}
