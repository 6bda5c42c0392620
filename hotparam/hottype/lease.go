package hottype

import "time"

// Lease is the places that a request in flight holds. It is over by itself after the
// shortest Life of its places, unless it is renewed.
type Lease struct {
	// ID is random and known only to the holder: who does not know it cannot release it.
	ID     string
	Places []Place
}

// Place is one place of a lease.
type Place struct {
	// Name says of what: a key, or a client.
	Name string
	// Most is how many may be held at a time, Life for how long without renewal.
	Most int64
	Life time.Duration
	// Shared is whether it is kept by the store that processes share.
	Shared bool
}
