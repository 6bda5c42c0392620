package learn

// isMachine reports whether a kind is no evidence about the addresses of a log: such clients have addresses of their
// own, on the inside or outside, whether the others are behind a proxy or not.
func isMachine(k kind) bool { return k == loop || k == scanner || k == probe || k == self }

// proxyReason returns the reason why the addresses of the log do not identify clients, or "" if they do.
func (v *visitors) proxyReason(s *survey) string {
	shared, private, addresses, clients, requests := int64(0), int64(0), 0, 0, v.requests
	for client, c := range v.all {
		k := v.kindOf(c)
		if isMachine(k) {
			requests -= c.requests
			continue
		}
		clients++
		if k == sharedAddress {
			shared += c.requests
		}
		if client.Addr.IsPrivate() || client.Addr.IsLoopback() {
			private += c.requests
			addresses++
		}
	}
	known := requests - v.unknown - v.dropped
	switch half := requests / 2; {
	case v.unknown > half:
		return "most lines name no client"
	case known < fewLines:
		return ""
	case clients == 1:
		return "all lines have one client: the log names a proxy, or it is of one client"
	case float64(clients) >= ownClients*float64(known):
		return "nearly every line has a client of its own: another field may have been read for the client"
	case private > half && addresses < manyInside:
		return "most requests come from private addresses: the log names a proxy, not its clients"
	case shared > half:
		return "most requests come from addresses with many browsers each: the log names a proxy or CDN"
	case v.areFew(requests) && s.isIndependent(v.chanceOfSame()):
		return "a few addresses request the same pages as often as chance has it: the log names a proxy or CDN"
	}
	return ""
}

// In a log of at least fewLines lines, clients are no evidence if ownClients of the lines, as a fraction, or more have
// a client of their own: hardly any client came twice.
const (
	fewLines   = 200
	ownClients = 0.95
)

// manyInside is the number of private addresses from which on they are a company's own people, and not its proxies.
const manyInside = 200

// The machines of a proxy or CDN are fewer than fewAddresses, weighted by their requests, and lastingShare of the
// requests come from machines that are there during lastingShare of the log.
const (
	fewAddresses = 200
	lastingShare = 0.75
)

// areFew reports whether most requests come from few addresses, each during most of the log. People come and go.
func (v *visitors) areFew(requests int64) bool {
	lasting := int64(0)
	for _, c := range v.all {
		if !isMachine(c.kind) && float64(c.last-c.first) >= lastingShare*float64(v.last-v.first) {
			lasting += c.requests
		}
	}
	return float64(lasting) >= lastingShare*float64(requests) && v.chanceOfSame()*fewAddresses > 1
}

// chanceOfSame returns the chance that two requests have the same client, if each request is a draw of its own.
func (v *visitors) chanceOfSame() float64 {
	all, squares := 0.0, 0.0
	for _, c := range v.all {
		if !isMachine(c.kind) {
			all += float64(c.requests)
			squares += float64(c.requests) * float64(c.requests)
		}
	}
	return squares / max(all*all, 1)
}

// leastRepeats is the minimum number of requests for a known value from which the independence of clients is concluded.
const leastRepeats = 100

// isIndependent reports whether the next request for a value comes from the same client as often as the given chance.
// A person, and a loop, come back to a page more often; a crawler requests each page once.
func (s *survey) isIndependent(chance float64) bool {
	repeats, same := int64(0), int64(0)
	for _, pl := range s.places {
		for _, p := range pl.params {
			if p.values.distinct.count() >= leastValues {
				repeats += p.values.repeats
				same += p.values.repeats - p.values.others
			}
		}
	}
	found := float64(same) / float64(max(repeats, 1))
	return repeats >= leastRepeats && found > chance/2 && found < 2*chance
}
