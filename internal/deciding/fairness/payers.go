package fairness

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// payers are the credits that pay for a request. The networks are nil for a client without an address.
type payers struct {
	client, network, parent *credit
	newcomer                bool
}

// findPayers finds the credits that pay for a request. It is called with mu held.
func (k *Divider) findPayers(h hashes, now time.Time) (p payers) {
	var known bool
	p.client, known = k.credits.find(k.credits.clients[:], h.client)
	p.newcomer = !known && (p.client.who != 0 || now.Sub(k.began) > maxCalm)
	if h.network != 0 {
		p.network, _ = k.credits.find(k.credits.networks[:], h.network)
		p.parent, _ = k.credits.find(k.credits.networks[:], h.parent)
	}
	return p
}

// missingTokens returns the number of tokens that the client lacks, or 0 or less if it lacks nothing. For its networks
// and for newcomers it counts the tokens until one client's turn. It is called with mu held.
func (k *Divider) missingTokens(p *payers, need float64) float64 {
	c := k.credits
	short := need - c.tokensLeft(p.client, k.most)
	if p.newcomer && k.newcomers <= 0 {
		short = max(short, (1-k.newcomers)*parentWeight*k.fair/k.newcomersRate())
	}
	if p.network != nil {
		short = max(short, need-networkWeight*c.tokensLeft(p.network, k.most),
			need-parentWeight*c.tokensLeft(p.parent, k.most))
	}
	return short
}

// chargePayers charges the payers. It is called with mu held.
func (k *Divider) chargePayers(p *payers, h hashes, price float64) {
	c := k.credits
	if p.newcomer {
		k.newcomers = max(k.newcomers-price, -k.burst)
		c.chargeCredit(p.client, h.client, k.newcomerDebt(price), min(k.most, newcomerCredit))
	} else {
		c.chargeCredit(p.client, h.client, price, k.most)
	}
	if p.network != nil {
		c.chargeCredit(p.network, h.network, price/networkWeight, k.most)
	}
	if p.parent != nil && p.parent != p.network {
		c.chargeCredit(p.parent, h.parent, price/parentWeight, k.most)
	}
}

// newcomerDebt returns the part of a price that a newcomer pays itself, which is the part above a client's first
// credit. It is called with mu held.
func (k *Divider) newcomerDebt(price float64) float64 { return max(0, price-k.first) }

// newcomersRate returns the rate of all newcomers together in this process, in tokens a second. It is called with mu
// held.
func (k *Divider) newcomersRate() float64 { return max(parentWeight*k.fair, newcomersPart*k.inflow) }

// refundCredit undoes chargePayers. A client whose credit was evicted meanwhile gets no refund. It is called with mu
// held.
func (k *Divider) refundCredit(who hottype.Client, cost int64, a Result) {
	c, h, price := k.credits, hashesOf(k.seed, who), float64(cost)
	if c == nil {
		return
	}
	if a.newcomer {
		k.newcomers += price
		c.refundCredit(c.clients[:], h.client, k.newcomerDebt(price))
	} else {
		c.refundCredit(c.clients[:], h.client, price)
	}
	if h.network != 0 {
		c.refundCredit(c.networks[:], h.network, price/networkWeight)
		c.refundCredit(c.networks[:], h.parent, price/parentWeight)
	}
}
