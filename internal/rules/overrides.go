package rules

import (
	"bytes"
	"cmp"
	"net/netip"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/netset"
	"github.com/hotparam/pipeline/internal/persistent"
)

// Overrides is an immutable index over overrides, shared freely. A nil *Overrides is empty. Find costs one look-up, and
// for patterns, if there are many, one look-up for each byte of the key. FindClient costs one look-up of the longest
// prefix. Only the index of WithShadow contains the overrides in shadow mode.
//
// An [OverrideIndex] makes the next index when overrides change; the two share what did not change.
type Overrides struct {
	exact persistent.Map[[]*entry]
	// patterns holds all patterns in their order. byGram holds them by three bytes that every key they match contains,
	// and ungrammed the patterns that have no such bytes.
	patterns  persistent.List[*entry]
	byGram    persistent.Map[[]*entry]
	ungrammed []*entry
	// blocks holds the exact overrides that block, by resource. Under anyPath it holds the overrides of all paths.
	blocks persistent.Map[persistent.List[*entry]]
	// resources holds the overrides of whole resources, and blockedPaths its overrides that block a path.
	resources    persistent.Map[[]*entry]
	blockedPaths persistent.List[*entry]
	// networks finds the overrides of clients and CIDRs, as []*entry, or is nil if there are none. classes holds
	// overrides by class.
	networks netset.Table
	clients  int // overrides in networks
	classes  persistent.Map[[]*entry]
	// tried indexes all overrides as if overrides in shadow mode were enforced. It is nil if no override is in shadow
	// mode.
	tried *Overrides
}

// entry is an override in an index. Several indexes share it.
type entry struct {
	override Override
	live     bool
	position int // in the file, or 0
	glob     canon.Glob
	literal  int
	gram     string         // three bytes of a pattern, or "" if it has too few
	schedule *scheduleCache // nil if it always holds
}

// holdsAt reports whether the override of e holds at now, like Override.HoldsAt.
func (e *entry) holdsAt(now time.Time) bool {
	return !e.override.Expired(now) && (e.schedule == nil || e.schedule.holdsAt(now))
}

// NewOverrides indexes the overrides of the configuration file and the live overrides. It keeps copies.
func NewOverrides(static, live []Override) *Overrides {
	return NewOverrideIndex(static).Update(LiveOf(live))
}

// WithShadow returns the index as it would be if every override in shadow mode were enforced, or nil if no override is
// in shadow mode. An override in shadow mode that is found in it would decide.
func (o *Overrides) WithShadow() *Overrides { return o.tried }

// anyPath is the resource under which the catch-all counts a target that upstreams may read as any path. Other
// resources of the catch-all are paths, and resources of other rules do not begin with a slash.
const anyPath = "/"

func isPath(resource string) bool { return strings.HasPrefix(resource, anyPath) }

// OfKeys reports whether there are overrides of keys, patterns or resources.
func (o *Overrides) OfKeys() bool { return o.exact.Len()+o.patterns.Len()+o.resources.Len() > 0 }

// OfClients reports whether there are overrides of addresses, networks or classes.
func (o *Overrides) OfClients() bool { return o.clients+o.classes.Len() > 0 }

// FindClient returns the override that holds for an address, or nil if there is none. Of several it returns the
// override of the longest prefix, and of equal prefixes the live override. It does not allocate.
func (o *Overrides) FindClient(a netip.Addr, now time.Time) *Override {
	if o == nil || o.networks == nil || !a.IsValid() {
		return nil
	}
	for bits := a.BitLen(); bits >= 0; { // an override that does not hold now hides no shorter prefix
		network, list, found := o.networks.LookupPrefixLPM(netip.PrefixFrom(a, bits))
		if !found {
			return nil
		}
		if best := firstHolding(list.([]*entry), now); best != nil {
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
	list, _ := o.classes.Get(name)
	return firstHolding(list, now)
}

// compareEntries orders overrides that hold for the same key: live overrides first, then the most specific, then
// overrides with a schedule, then overrides in shadow mode, which would replace the others if they were enforced, then
// the newest, then by ID and by their place in the file, so that all processes agree.
func compareEntries(a, b *entry) int {
	return cmp.Or(
		trueFirst(a.live, b.live),
		cmp.Compare(b.literal, a.literal),
		trueFirst(a.schedule != nil, b.schedule != nil),
		cmp.Compare(b.override.Mode, a.override.Mode),
		b.override.Created.Compare(a.override.Created),
		cmp.Compare(a.override.ID, b.override.ID),
		cmp.Compare(a.position, b.position),
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
	list, _ := o.exact.GetBytes(key)
	exact := firstHolding(list, now)
	if (exact == nil || exact.KeepsLimit()) && canon.IsMalformed(key) {
		if block := o.findBlocking(key[:len(key)-len(canon.Malformed)-1], now); block != nil {
			return block
		}
	}
	if exact != nil {
		return exact
	}
	if p := o.findPattern(key, now); p != nil {
		return p
	}
	if o.resources.Len() == 0 {
		return nil
	}
	resource, _, _ := bytes.Cut(key, []byte{'?'})
	return o.findResource(resource, now)
}

// findResource returns the override of a whole resource that holds, or nil if there is none.
func (o *Overrides) findResource(resource []byte, now time.Time) *Override {
	list, _ := o.resources.GetBytes(resource)
	return firstHolding(list, now)
}

// firstHolding returns the first override of a list that holds, or nil if no override holds.
func firstHolding(list []*entry, now time.Time) *Override {
	for _, e := range list {
		if e.holdsAt(now) {
			return &e.override
		}
	}
	return nil
}

// findBlocking returns an override that blocks a key of a resource, or nil if there is none. The resource anyPath has
// the keys of all paths. Overrides that another override of the same text replaces are skipped.
func (o *Overrides) findBlocking(resource []byte, now time.Time) *Override {
	ofAnyPath := string(resource) == anyPath
	blocks, _ := o.blocks.GetBytes(resource)
	for e := range blocks.All() {
		b := &e.override
		if same, _ := o.exact.Get(b.Key); firstHolding(same, now) == b {
			return b
		}
	}
	for e := range o.patterns.All() {
		b := &e.override
		within := e.glob.MatchesWithin(resource) || ofAnyPath && isPath(b.Key)
		if b.Action == ActionBlock && within && e.holdsAt(now) && !o.isReplaced(e, now) {
			return b
		}
	}
	if b := o.findResource(resource, now); b != nil && b.Action == ActionBlock {
		return b
	}
	if ofAnyPath {
		for e := range o.blockedPaths.All() {
			if b := &e.override; o.findResource([]byte(b.Resource), now) == b {
				return b
			}
		}
	}
	return nil
}

// isReplaced reports whether another override of the same pattern, which holds, comes before e.
func (o *Overrides) isReplaced(e *entry, now time.Time) bool {
	for other := range o.patterns.All() {
		if other == e {
			return false
		}
		if other.override.Key == e.override.Key && other.holdsAt(now) {
			return true
		}
	}
	return false
}
