package gate

import (
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/rules"
)

// priority is the priority of the limit of one key. Each class has a place, in order, and all other requests have the
// place after them.
//
// All places take from one bucket, and each but the first leaves a reserve in it for the places before it. Nothing of
// the rate is lost by that: while the last place asks for too much, the bucket stays at the reserve and not at zero.
//
// The bound on requests in flight of an adaptive limit is the other way round. The last place has the bound that the
// controller found, and the places before it may exceed it, because the bound has hardly more slots than the upstream
// has workers, and a slot that is kept free would idle. They have spareSlots besides, or a limiter of several, whose
// part of the bound is two or three slots, would refuse members who come at random.
type priority struct {
	classes []*rules.Class
	limits  []keyLimit // by place
	// passAge is the age from which a visitor pass counts at some place, or 0 if no place is of visitors.
	passAge time.Duration
}

// spareSlots is the number of slots that each place before the last has in addition to its multiple of the bound,
// because requests that come at random sometimes need a few slots more than on average, however small the bound is.
const spareSlots = 4

// prioritise makes the limits for the places of a limit with priority.
func (st *state) prioritise(h *keyLimit, classes []string) {
	n := int64(len(classes))
	spec := limitcore.Spec(h.limit.spec)
	if n == 0 || !h.limited || !spec.Refills() || spec.Queues() || spec.Block > 0 || spec.InitialDeficit > 0 {
		return // an override may set a limit that has no reserves
	}
	p := &priority{limits: make([]keyLimit, n+1)}
	h.priority = p
	for i := range p.limits {
		one := &p.limits[i]
		*one = *h
		one.limit.spec.Reserve = h.limit.spec.Burst * int64(i) / (2 * n)
		one.limit.window = refillTime(one.limit.spec)
		one.place = otherRules
		if i < len(classes) {
			one.place = classes[i]
		}
		if a := h.adaptive; a != nil && a.slots != nil {
			adaptive, slots := *a, *a.slots
			if i < len(classes) {
				slots.Limit += 2*slots.Limit*(n-int64(i))/n + spareSlots
			}
			adaptive.slots, one.adaptive = &slots, &adaptive
		}
	}
	for _, name := range classes {
		c := st.set.ClassNamed(name)
		if c.PassAge > 0 {
			p.passAge = c.PassAge // the classes with the higher ages are before it
		}
		p.classes = append(p.classes, c)
	}
}

// limitByPlace returns the limit for the place of the request: the place of the first class of the priority to which it
// belongs.
func (d *decision) limitByPlace(p *priority, v *verdict.Verdict) *keyLimit {
	for i, c := range p.classes {
		if d.belongsTo(c, v.Class) {
			if v.Class == "" {
				v.Class = c.Name
			}
			return &p.limits[i]
		}
	}
	return &p.limits[len(p.classes)]
}

// belongsTo reports whether the request, which has a class by its fields or address, counts as of class c. Its own word
// is not enough: a header field counts if a proxy has sent it.
func (d *decision) belongsTo(c *rules.Class, class string) bool {
	switch {
	case c.PassAge > 0:
		age, ok := d.visitorPass()
		return ok && age >= c.PassAge
	case c.Granted:
		return d.grantedClass() == c.Name
	}
	return c.Name == class && (d.req.FromProxy || !c.IsForgeable())
}

// proof holds the visitor pass and the granted class of a request, once they have been looked for.
type proof struct {
	passKnown, hasPass bool
	passAge            time.Duration
	grantKnown         bool
	granted            string
}

// maxCookieLines bounds the lines of the field Cookie that are searched. Browsers send one.
const maxCookieLines = 4

// cookieLines returns the lines of the field Cookie.
func (d *decision) cookieLines() []string {
	if d.req.Header == nil {
		return nil
	}
	lines := d.req.Header.Values("Cookie")
	return lines[:min(len(lines), maxCookieLines)]
}

// visitorPass returns the age of the client's pass, and reports whether it has one.
func (d *decision) visitorPass() (age time.Duration, ok bool) {
	if !d.proof.passKnown {
		d.proof.passKnown = true
		for _, line := range d.cookieLines() {
			age, ok := d.g.cfg.Passes.Age(d.now, line, d.req.ClientAddr())
			if ok && (!d.proof.hasPass || age > d.proof.passAge) {
				d.proof.passAge, d.proof.hasPass = age, true
			}
		}
	}
	return d.proof.passAge, d.proof.hasPass
}

func (d *decision) grantedClass() string {
	if !d.proof.grantKnown {
		d.proof.grantKnown = true
		for _, line := range d.cookieLines() {
			if class, ok := d.g.cfg.Passes.Granted(d.now, line); ok {
				d.proof.granted = class
			}
		}
	}
	return d.proof.granted
}

// offerPass adds a visitor pass to the denial by a limit with priority, unless the client has a pass, and makes
// RetryAfter the time until the pass counts.
func (d *decision) offerPass(v *verdict.Verdict) {
	p := d.priorityOfDenial()
	if p == nil || p.passAge == 0 || v.Reason == hottype.ReasonStore {
		return
	}
	age, ok := d.visitorPass()
	if !ok {
		pass := d.g.cfg.Passes.Issue(d.now, d.req.ClientAddr())
		if pass == "" {
			return
		}
		name, value, _ := strings.Cut(pass, "=")
		v.Pass = &hottype.Pass{Name: name, Value: value}
	}
	if wait := p.passAge - age; wait > 0 && v.RetryAfter != hottype.Never {
		v.RetryAfter = max(v.RetryAfter, wait+time.Second) // passes count whole seconds
	}
}

// priorityOfDenial returns the priority of the limit that denied the request, or nil if the limit has no priority.
func (d *decision) priorityOfDenial() *priority {
	for i := range d.keys {
		if k := &d.keys[i]; k.denied && k.h != nil && k.h.priority != nil {
			return k.h.priority
		}
	}
	return nil
}

// countPlaces counts the request for the class of its place, if a limit with priority decided on it.
func (d *decision) countPlaces(v *verdict.Verdict) {
	for i := range d.keys {
		k := &d.keys[i]
		if k.h == nil || k.h.priority == nil {
			continue
		}
		counts := &d.g.stats.allowedBy
		if !v.Allowed {
			counts = &d.g.stats.deniedBy
		}
		counts.add(k.h.place)
		return
	}
}

// UsesProofs reports whether clients prove classes of the rules by cookies, and whether responses grant some of them.
func (g *Gate) UsesProofs() (cookies, grants bool) {
	st := g.cur.Load()
	return st.proofs, st.grants
}

// Grant returns the pass of a class that a response grants to its client, "NAME=VALUE" of a cookie, or "" if the rules
// do not let responses grant the class, or if the limiter has no secret.
func (g *Gate) Grant(now time.Time, class string) string {
	if !g.cur.Load().set.Grants(class) {
		return ""
	}
	return g.cfg.Passes.Grant(now, class)
}
