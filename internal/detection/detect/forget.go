package detect

// ForgetBaselines drops what keys used to have, because keys have come whose past
// nobody here knows: each of them would look like a surge. Rules with surge say
// nothing by it until there is past enough again; what is hot by it only cools.
func (d *Detector) ForgetBaselines() {
	defer d.hold()()
	for _, l := range d.shards {
		l.mu.Lock()
		for _, h := range l.states {
			if h.baseline != nil {
				h.baseline = newBaseline(h.compiled, h.opts.perShard())
			}
		}
		l.mu.Unlock()
	}
}
