package main

import "math/rand/v2"

// simulate plays a cell on virtual time, and returns its clients with the tallies of their requests.
func simulate(c *cell, seed uint64) (*crowd, error) {
	k, random := new(clock), rand.New(rand.NewPCG(seed, 3))
	up := &upstream{clock: k, random: random, workers: workers}
	p, err := newProduct(k, random, c.variant.file(), c.limiters)
	if err != nil {
		return nil, err
	}
	w := newCrowd(c, k, random)
	w.send = func(c *client, done func(reply)) {
		if k.now >= seconds(w.starts) {
			p.ask(c.request(random), up, done)
			return
		}
		up.ask(func(ok bool) { done(outcomeAtUpstream(ok)) })
	}
	k.after(seconds(c.starts), p.start)
	w.plan(p.passes, epoch)
	k.run(seconds(c.seconds))
	return w, nil
}
