package fairness

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// payers are the credits that pay for a request; networks are nil for a client without an address.
type payers struct {
	client, network, parent *credit
	newcomer                bool
}

// payers finds them. It is called with mu held.
func (k *Divider) payers(h hashes, now time.Time) (p payers) {
	var known bool
	p.client, known = k.credits.find(k.credits.clients[:], h.client)
	p.newcomer = !known && (p.client.who != 0 || now.Sub(k.began) > maxCalm)
	if h.network != 0 {
		p.network, _ = k.credits.find(k.credits.networks[:], h.network)
		p.parent, _ = k.credits.find(k.credits.networks[:], h.parent)
	}
	return p
}

// short is how many tokens the client lacks, at most 0 if none. Of its networks and of
// newcomers it waits for what one client's turn takes. It is called with mu held.
func (k *Divider) short(p *payers, need float64) float64 {
	c := k.credits
	short := need - c.left(p.client, k.most)
	if p.newcomer && k.newcomers <= 0 {
		short = max(short, (1-k.newcomers)*parentWeight*k.fair/k.newcomersRate())
	}
	if p.network != nil {
		short = max(short, need-networkWeight*c.left(p.network, k.most), need-parentWeight*c.left(p.parent, k.most))
	}
	return short
}

// pay is called with mu held.
func (k *Divider) pay(p *payers, h hashes, price float64) {
	c := k.credits
	if p.newcomer {
		k.newcomers = max(k.newcomers-price, -k.burst)
		c.charge(p.client, h.client, k.debt(price), min(k.most, newcomerCredit))
	} else {
		c.charge(p.client, h.client, price, k.most)
	}
	if p.network != nil {
		c.charge(p.network, h.network, price/networkWeight, k.most)
	}
	if p.parent != nil && p.parent != p.network {
		c.charge(p.parent, h.parent, price/parentWeight, k.most)
	}
}

// debt is what a newcomer pays itself of a price: what is above a client's first credit. It is
// called with mu held.
func (k *Divider) debt(price float64) float64 { return max(0, price-k.first) }

// newcomersRate is how many tokens a second newcomers together may have here. It is called
// with mu held.
func (k *Divider) newcomersRate() float64 { return max(parentWeight*k.fair, newcomersPart*k.inflow) }

// refundCredit is called with mu held. A client whose entry was evicted meanwhile gets nothing back.
func (k *Divider) refundCredit(who hottype.Client, cost int64, a Result) {
	c, h, price := k.credits, hashesOf(k.seed, who), float64(cost)
	if c == nil {
		return
	}
	if a.newcomer {
		k.newcomers += price
		c.refundCredit(c.clients[:], h.client, k.debt(price))
	} else {
		c.refundCredit(c.clients[:], h.client, price)
	}
	if h.network != 0 {
		c.refundCredit(c.networks[:], h.network, price/networkWeight)
		c.refundCredit(c.networks[:], h.parent, price/parentWeight)
	}
}
