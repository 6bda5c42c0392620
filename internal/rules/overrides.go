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

// Overrides is an immutable index over overrides, shared freely. A nil one is
// empty. Find costs one look-up, and of patterns, if there are many, one for each byte of the key;
// FindClient one look-up of the longest prefix. Only the index of WithShadow has the
// overrides in shadow mode.
type Overrides struct {
	exact    map[string][]*entry
	patterns []*entry
	// byGram has the positions of patterns by three bytes that every key they match has, and ungrammed those of the
	// others; few patterns are all there.
	byGram    map[[3]byte][]int
	ungrammed []int
	// blocks has the exact ones that block, by resource. Under anyPath it has those of all paths.
	blocks map[string][]*entry
	// resources are those of whole resources, and blockedPaths those of them that block a path.
	resources    map[string][]*entry
	blockedPaths []*entry
	// networks are those of clients and CIDRs; nil: none. classes are by name.
	networks  netset.Table // positions in byNetwork
	byNetwork [][]*entry
	classes   map[string][]*entry
	// tried are all overrides, as if those in shadow mode were enforced; nil: none is in
	// shadow mode.
	tried *Overrides
}

type entry struct {
	override Override
	live     bool
	glob     canon.Glob
	literal  int
	plan     *scheduleCache // nil: holds always
}

func (e *entry) holds(now time.Time) bool {
	return !e.override.Expired(now) && (e.plan == nil || e.plan.holds(now))
}

// NewOverrides indexes the overrides of the configuration file and the live
// ones. It keeps copies.
func NewOverrides(static, live []Override) *Overrides {
	o := index(static, live, false)
	if slices.ContainsFunc(static, Override.InShadow) || slices.ContainsFunc(live, Override.InShadow) {
		o.tried = index(static, live, true)
	}
	return o
}

// WithShadow is the index as it would be if every override in shadow mode were enforced; nil
// if there is none. An override in shadow mode that is found in it would decide.
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
// resources of the catch-all are paths, and those of other rules do not begin with a slash.
const anyPath = "/"

func isPath(resource string) bool { return strings.HasPrefix(resource, anyPath) }

// OfKeys reports whether there are any of keys, patterns or resources.
func (o *Overrides) OfKeys() bool { return len(o.exact)+len(o.patterns)+len(o.resources) > 0 }

// OfClients reports whether there are any of addresses, networks or classes.
func (o *Overrides) OfClients() bool { return o.networks != nil || len(o.classes) > 0 }

// FindClient returns the override that holds for an address, nil if there is none: that
// of the longest prefix, of equal ones the live one. It does not allocate.
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

// FindClass returns the override that holds for a class, nil if there is none.
func (o *Overrides) FindClass(name string, now time.Time) *Override {
	if o == nil || name == "" {
		return nil
	}
	return first(o.classes[name], now)
}

// before orders overrides that hold for the same key: live ones first, then the most
// specific, then those with a schedule, then those in shadow mode, which would replace
// the others if they were enforced, then the newest, then by ID, so that all processes agree.
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

// Find returns the override that holds for a key, nil if there is none: live
// exact, file exact, live pattern, file pattern, live resource, file resource; among
// patterns the one with the most literal bytes. Overrides that have expired, and those
// whose schedule does not hold, are skipped. It allocates only when a window of a
// schedule begins or ends. The result is shared and must not be changed.
//
// A malformed request may be for any key of its resource, so an override that blocks
// one of them blocks it too, before patterns that match the reserved key.
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

// first returns the first override of a list that holds, nil if none does.
func first(list []*entry, now time.Time) *Override {
	for _, e := range list {
		if e.holds(now) {
			return &e.override
		}
	}
	return nil
}

// blocking returns an override that blocks a key of a resource, nil if there is none. The resource anyPath has the keys
// of all paths. It skips overrides that another override of the same text replaces.
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
