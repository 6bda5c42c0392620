package detect

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/canon"
	"github.com/hotparam/pipeline/hotparam/rules"
)

// aliasPrefix begins the keys whose metric name cannot be decoded.
const aliasPrefix = "!hp1:"

// heatOf gives the state of the rule that judges key, nil where none does.
func (d *Detector) heatOf(key hotparam.Key) *heat {
	resource := resourceOf(key)
	if resource == d.lastResource && d.lastHeat != nil {
		return d.lastHeat
	}
	name := resource
	if strings.HasPrefix(name, aliasPrefix) {
		name = decodeResource(name[len(aliasPrefix):])
	}
	h := d.byName[name]
	if h == nil {
		h = d.catchAll
	}
	d.lastResource, d.lastHeat = resource, h
	return h
}

// resourceOf is the part of the key that says which rule judges it; for an
// alias, still in HP1 form and with its prefix.
func resourceOf(key hotparam.Key) string {
	if strings.HasPrefix(string(key), aliasPrefix) {
		resource, _, _ := strings.Cut(string(key), ".")
		return resource
	}
	return key.Resource()
}

// decodeResource reads the HP1 form of a resource; "" where it is a hash. It
// lets canon read it as part of a metric without parameters.
func decodeResource(hp1 string) string {
	names := canon.Names{Prefix: "x", Style: canon.StyleHP1}
	key, err := names.Parse([]byte("x." + hp1 + ".hot_param.Ze"))
	if err != nil || strings.HasPrefix(string(key), aliasPrefix) {
		return ""
	}
	return key.Resource()
}

// SetRules judges by another set of rules from now on. A rule is known by its
// name. Where its window is the same its counts are kept and judged by the new
// thresholds; where the window is another, counting begins anew and what is hot
// stays so until it cools. Hot keys of rules that are gone, and keys that now
// fall to another rule, leave with the next Tick. It looks at every key that is
// counted.
func (d *Detector) SetRules(set *rules.Set) {
	old := d.byName
	d.heats, d.byName, d.catchAll = nil, make(map[string]*heat), nil
	d.lastResource, d.lastHeat = "", nil
	for _, r := range set.Rules {
		h := old[r.Name]
		if h == nil {
			h = newHeat(r, d.second, d.opts)
		}
		d.heats = append(d.heats, h)
		d.byName[r.Name] = h
		if r.IsCatchAll() {
			d.catchAll = h
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		old[name].recount(d.now) // as the rules before see it
		d.dropStrays(old[name])
	}
	for i, r := range set.Rules {
		d.change(d.heats[i], r)
	}
}

// change makes h judge by its rule as it is now.
func (d *Detector) change(h *heat, r *rules.Rule) {
	before := h.window
	h.setRule(r)
	if h.window != before {
		h.restart(d.second, d.opts)
	}
	now := time.Unix(d.second, 0)
	h.counts.Each(func(key hotparam.Key, sum int64) {
		if sum >= h.hot && d.heatOf(key) == h {
			h.warm(key, sum, now)
		}
	})
	h.recount(now)
}

// dropStrays takes from h the keys that it does not judge any more.
func (d *Detector) dropStrays(h *heat) {
	stray := func(key hotparam.Key) bool { return d.heatOf(key) != h }
	for key, c := range h.candidates {
		if !stray(key) {
			continue
		}
		delete(h.candidates, key)
		if c.shown {
			d.gone = append(d.gone, Change{Kind: Cooled, Hot: h.hotOf(c)})
		}
	}
	for second, keys := range h.early {
		h.early[second] = slices.DeleteFunc(keys, stray)
	}
}
