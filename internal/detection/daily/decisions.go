package daily

import "github.com/hotparam/pipeline/hotparam/hottype"

// decisions adds up what limiters decided, from counters that only grow.
type decisions struct {
	allowed uint64
	denied  hottype.Denials
	last    map[string]hottype.Report // by instance
}

// take adds what is new since the last reports. The first reports of all are
// the beginning: what they count was decided before. A limiter that comes later
// has just started.
func (d *decisions) take(reports []hottype.Report) {
	first := d.last == nil
	next := make(map[string]hottype.Report, len(reports))
	for _, r := range reports {
		r.Keys = nil
		next[r.Instance] = r
		before, known := d.last[r.Instance]
		if first && !known {
			continue
		}
		d.allowed += grown(before.Allowed, r.Allowed)
		d.denied = plus(d.denied, difference(before.Denied, r.Denied))
	}
	// One that is silent for a moment comes back with the same counters.
	for name, r := range d.last {
		if _, here := next[name]; !here && len(next) < maxInstances {
			next[name] = r
		}
	}
	d.last = next
}

// maxInstances bounds how many limiters are remembered that are gone.
const maxInstances = 10_000

func grown(before, now uint64) uint64 {
	if now < before {
		return now // the same name, started anew
	}
	return now - before
}

func difference(a, b hottype.Denials) hottype.Denials {
	return hottype.Denials{Hot: grown(a.Hot, b.Hot), Override: grown(a.Override, b.Override), Blocked: grown(a.Blocked, b.Blocked),
		Malformed: grown(a.Malformed, b.Malformed),
		IPFixed:   grown(a.IPFixed, b.IPFixed), IPSliding: grown(a.IPSliding, b.IPSliding), Store: grown(a.Store, b.Store)}
}

func plus(a, b hottype.Denials) hottype.Denials {
	return hottype.Denials{Hot: a.Hot + b.Hot, Override: a.Override + b.Override, Blocked: a.Blocked + b.Blocked,
		Malformed: a.Malformed + b.Malformed,
		IPFixed:   a.IPFixed + b.IPFixed, IPSliding: a.IPSliding + b.IPSliding, Store: a.Store + b.Store}
}
