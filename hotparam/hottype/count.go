package hottype

import "time"

// The bounds of a count. Every reader of counts holds to them, so that nothing
// that one lets through is dropped by the next.
const (
	// MaxCount is the greatest N of a count, and of what its Clients says.
	MaxCount = 1 << 40
	// MaxAhead is how far a count's second may be ahead of its reader's clock.
	MaxAhead = 2 * time.Second
)

// Count says that a key was asked for N times in one second.
type Count struct {
	Key Key
	// N is how often: 1 to MaxCount.
	N int64
	// Second is the unix second in which the requests happened. Counts are
	// placed in windows by it, never by when they arrive.
	Second int64
	// Clients says which clients made the N requests; nil where they were not tracked. It
	// may be shared by several readers and is not changed once sent.
	Clients *ClientSketch
}

// ClientSketch says who made the requests of a count: about how many clients, and
// which of them are the heaviest. It is a summary of bounded size that can be
// merged with others; package clientsketch makes, merges and reads it. Clients are
// grouped as a [Client] is: IPv4 by /32, IPv6 by /64.
type ClientSketch struct {
	// Seen is how many of the requests were laid to a client. The others came
	// before the sender began to look at this key, or had no client.
	Seen int64
	// Sample are the smallest different hashes of clients, ascending (a bottom-k
	// sketch): below its size their number is that of the clients, exactly.
	Sample []uint32
	// Heavy are the heaviest clients, heaviest first, each with a lower bound
	// of its requests.
	Heavy []ClientCount
}

// ClientCount is a client and its requests.
type ClientCount struct {
	Client Client
	N      int64
}
