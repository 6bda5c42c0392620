package gate

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// findClass finds the class of the client, or the default class if it has no other.
func (g *Gate) findClass(d *decision, v *verdict.Verdict) {
	if d.class = &d.st.defaultClass; len(d.st.classes) > 0 {
		g.findNamedClass(d, v)
	}
	if isPreflight(d.req) {
		d.class = d.class.preflight
	}
}

func (g *Gate) findNamedClass(d *decision, v *verdict.Verdict) {
	c := d.st.set.ClassOf(d.req, func(domains string) bool { return g.IsVerified(d.now, d.req, domains) })
	if c != nil {
		v.Class, d.class = c.Name, d.st.classes[c.Name]
	}
}

// IsVerified reports whether DNS names the address of a request in one of the domains of a class. It does not wait for
// DNS.
func (g *Gate) IsVerified(now time.Time, req *hottype.Request, domains string) bool {
	addr := req.ClientAddr()
	return g.cfg.Verifier != nil && addr.IsValid() && g.cfg.Verifier.Verified(now, addr, domains)
}

// Upstream returns the name of the upstream of requests of a class; "" is the default upstream.
func (g *Gate) Upstream(class string) string {
	if c := g.cur.Load().classes[class]; c != nil {
		return c.upstream
	}
	return ""
}

// limitsClient reports whether limits of the client are charged that do not depend on rules: the client is known, and
// was not charged for this request.
func (d *decision) limitsClient() bool { return !d.client.IsZero() && !d.clientCharged }

// hasClientLimits reports whether chargeClient may have something to charge.
func (d *decision) hasClientLimits() bool {
	return d.class.limited || len(d.perClient) > 0 || d.override.Override != nil
}

// chargeClient adds the limits of the client: an override's limit, or the windows and slots of its class; and its
// windows for the requests of the matched rules, also if another part of the request was charged to the client.
func (d *decision) chargeClient() {
	if d.override.hasAction(rules.ActionExempt) {
		return
	}
	shadow := d.override.hasAction(rules.ActionShadow)
	if !d.clientCharged {
		d.chargeClass(shadow)
	}
	if len(d.perClient) > 0 {
		d.chargeRuleWindows(shadow)
	}
}

// chargeClass adds the limits of the client that do not depend on rules.
func (d *decision) chargeClass(shadow bool) {
	if d.override.hasAction(rules.ActionLimit) {
		if !d.client.IsZero() {
			d.addCharge(d.st.overrideSlot(d.override.Override).clientLimit, -1, false)
		}
	} else {
		for _, w := range d.class.windows {
			if w != nil {
				d.chargeWindow(w, shadow)
			}
		}
	}
	if d.class.inFlight != nil && d.releases && !shadow && !d.longPath && !d.client.IsZero() {
		d.needSlot(d.class.inFlight, -1)
	}
}

// chargeWindow adds a window of the client, if the client is known by its address or by the field of the window.
func (d *decision) chargeWindow(w *boundLimit, shadow bool) {
	if w.field == nil {
		if !d.client.IsZero() {
			d.addCharge(w, -1, shadow)
		}
	} else if client := w.field.ClientOf(d.req, d.client); !client.IsZero() {
		d.addCharge(w, -1, shadow).Subject.Client = client
	}
}

// takeWindows takes a request from the windows of its client, which this process keeps, if nothing else limits it and
// they allow it, as is the case for most requests: it costs less without charges. Otherwise it takes nothing.
func (d *decision) takeWindows(v *verdict.Verdict) bool {
	c := d.class
	if c.local == nil && len(d.perClient) == 0 || d.override.Override != nil || !d.limitsClient() ||
		c.inFlight != nil && d.releases {
		return false
	}
	for i := range d.keys {
		if d.keys[i].h != nil {
			return false
		}
	}
	if len(d.perClient) > 0 {
		return d.takeRuleWindows(v) // per_client.go
	}
	var results [limit.MaxClientWindows]limit.Result
	if !c.local.Take(d.now, &d.client, d.cost, results[:]) {
		return false
	}
	n := 0
	for _, w := range c.windows {
		if w != nil {
			d.reportLimit(v, w, &results[n])
			n++
		}
	}
	return true
}
