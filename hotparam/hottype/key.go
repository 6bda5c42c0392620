package hottype

import (
	"math"
	"strings"
	"time"
)

// Key names what is counted and limited: a resource and its canonical
// parameters, written "resource?params" ("topic?id=42"), or the resource alone
// where no parameter is left. Package canon builds keys from requests; a Key
// made by hand must already be in canonical form.
type Key string

// NewKey joins a resource and its canonical parameters.
func NewKey(resource, params string) Key {
	if params == "" {
		return Key(resource)
	}
	return Key(resource + "?" + params)
}

// Cut splits the key at its first "?", which cannot occur inside a resource.
// Params is empty where the key is a resource alone.
func (k Key) Cut() (resource, params string) {
	resource, params, _ = strings.Cut(string(k), "?")
	return resource, params
}

// Resource is the part of the key before its parameters.
func (k Key) Resource() string { r, _ := k.Cut(); return r }

// Params is the canonical parameter string, "" where there is none.
func (k Key) Params() string { _, p := k.Cut(); return p }

// IsAlias reports whether the key stands for one whose metric name would be too long: "!hp1:" and a hash. It has no
// resource and no parameters.
func (k Key) IsAlias() bool { return strings.HasPrefix(string(k), "!hp1:") }

// The bounds of a count. Every reader of counts holds to them, so that nothing
// that one lets through is dropped by the next.
const (
	// MaxCount is the greatest N of a count, and of what its Clients says.
	MaxCount = 1 << 40
	// MaxFuture is how far a count's second may be ahead of its reader's clock.
	MaxFuture = 2 * time.Second
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
	// Origin is where most of the N requests come from, if one network or sender made more of them than all others.
	Origin Origin
}

// Origin is the network of clients or the sender that made more requests than all others together: the vote of
// Boyer and Moore. The zero value is none. Package origins makes the tags.
type Origin struct {
	Tag uint32
	// N is at most how many requests more than all others it made, and at least that without half of what the
	// others made. So what others made is at most twice what is left of the requests without N.
	N int64
}

// Add counts n requests of a network or sender; those of an unknown one (tag 0) change nothing.
func (o *Origin) Add(tag uint32, n int64) {
	switch {
	case tag == 0:
	case tag == o.Tag:
		if o.N += n; o.N < 0 {
			o.N = math.MaxInt64
		}
	case n > o.N:
		o.Tag, o.N = tag, n-o.N
	default:
		o.N -= n
	}
}

// ClientSketch says who made the requests of a count: about how many clients, and
// which of them are the heaviest. It is a summary of bounded size that can be
// merged with others; package clientsketch makes, merges and reads it. Clients are
// grouped as a [Client] is: IPv4 by /32, IPv6 by /64.
type ClientSketch struct {
	// Attributed is how many of the requests were laid to a client. The others came
	// before the sender began to look at this key, or had no client.
	Attributed int64
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

// HotKey is one key over its rule's threshold.
type HotKey struct {
	Key  Key    `json:"key" label:"key"`
	Rule string `json:"rule" label:"rule"`
	// Rate is the key's requests per second over the rule's window when it was
	// last judged.
	Rate float64 `json:"rate" metric:"hotparam_hot_key_rate" help:"Requests per second of the 100 hottest keys."`
	// Lower and Upper bound the true rate: a window that holds more keys than
	// its memory allows knows counts to within an error only. Both are Rate
	// where the count is exact.
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
	// Share is the key's part of its resource's requests in the window, 0 to 1.
	Share float64 `json:"share"`
	// Baseline is the rate that the key used to have before, at most, in requests per
	// second; 0 where the rule has no surge, or knows of no past long enough.
	Baseline float64 `json:"baseline,omitempty"`
	// Why names the criteria that made it hot: "rate", "share" or "surge", or several joined by
	// "+".
	Why string `json:"why"`
	// Clients is about how many different clients asked for it in the window; 0
	// where that is not known.
	Clients int64 `json:"clients,omitempty"`
	// HeaviestClient is the one of them with most requests, and ClientShare its part of the key's
	// requests, 0 to 1; empty where the senders do not say.
	HeaviestClient string  `json:"heaviest_client,omitempty"`
	ClientShare    float64 `json:"client_share,omitempty"`
	// PeakRate is the highest Rate since the key became hot.
	PeakRate float64 `json:"peak_rate"`
	// Since is when the key crossed its threshold.
	Since time.Time `json:"since"`
	// Until is until when the publisher vouches for the entry; it renews that
	// about once a second. Readers keep a key for some minutes beyond it, because
	// a publisher that has fallen silent has not said that the key is cold.
	Until time.Time `json:"until"`
}
