package hottype

import "time"

// Serve says how a response cache answers requests for a key. It is not changed once
// it is in use.
type Serve struct {
	// TTL is how long an answer is fresh whose upstream says nothing about it; 0: such
	// answers are not kept.
	TTL time.Duration
	// Stale is for how long an answer that is no longer fresh is served while it is
	// fetched again, StaleIfError for how long where that fails or is refused.
	Stale, StaleIfError time.Duration
	// Vary are the header fields, in canonical form and sorted, by which answers may
	// differ. An answer that differs by another one is not kept.
	Vary []string
	// StripCookies answers requests that have cookies as if they had none. Otherwise they
	// go to the upstream.
	StripCookies bool
	// MaxBody is the longest body that is kept, in bytes.
	MaxBody int64
	// Wait is the longest time that a request waits for an answer that another one fetches.
	Wait time.Duration
}
