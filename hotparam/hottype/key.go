package hottype

import (
	"math"
	"strings"
	"time"
)

// Key names the requests that are counted and limited together: a resource and its canonical parameters, written
// "resource?params" ("topic?id=42"), or the resource alone if no parameter is left. Package canon builds keys from
// requests; a Key made by hand must already be in canonical form.
type Key string

// NewKey joins a resource and its canonical parameters.
func NewKey(resource, params string) Key {
	if params == "" {
		return Key(resource)
	}
	return Key(resource + "?" + params)
}

// Cut splits the key at its first "?", which cannot occur inside a resource. Params is empty if the key is a resource
// alone.
func (k Key) Cut() (resource, params string) {
	resource, params, _ = strings.Cut(string(k), "?")
	return resource, params
}

// Resource returns the part of the key before its parameters.
func (k Key) Resource() string { r, _ := k.Cut(); return r }

// Params returns the canonical parameter string, or "" if there is none.
func (k Key) Params() string { _, p := k.Cut(); return p }

// IsAlias reports whether the key stands for a key whose metric name would be too long: "!hp1:" and a hash. It has no
// resource and no parameters.
func (k Key) IsAlias() bool { return strings.HasPrefix(string(k), "!hp1:") }

// The bounds of a count. Every reader of counts applies them, so that a count that one reader accepts is not dropped by
// the next.
const (
	// MaxCount is the maximum N of a count, and of the numbers in its Clients.
	MaxCount = 1 << 40
	// MaxFuture is the time by which a count's second may be ahead of its reader's clock.
	MaxFuture = 2 * time.Second
)

// Count records that a key was requested N times in one second.
type Count struct {
	Key Key
	// N is the number of requests: 1 to MaxCount.
	N int64
	// Second is the unix second in which the requests happened. It alone places counts in windows, not the time at
	// which they arrive.
	Second int64
	// Clients identifies the clients that made the N requests, or is nil if they were not tracked. Several readers may
	// share it, and it is not changed once sent.
	Clients *ClientSketch
	// Origin is the origin of most of the N requests, if one network or sender made more of them than all others.
	Origin Origin
}

// Origin is the network of clients or the sender that made more requests than all others together: the vote of Boyer
// and Moore. The zero value means that there is none. Package origins makes the tags.
type Origin struct {
	Tag uint32
	// N is at least the number by which its requests exceed the requests of all others, and at most the number of its
	// requests. So the others made at least half of the requests that remain without N, and at most all of these.
	N int64
}

// Add counts n requests of a network or sender; requests of an unknown network or sender (tag 0) change nothing.
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

// ClientSketch describes the clients that made the requests of a count: their approximate number, and the heaviest of
// them. It is a summary of bounded size that can be merged with others; package clientsketch makes, merges and reads
// it. Clients are grouped as in [Client]: IPv4 by /32, IPv6 by /64.
type ClientSketch struct {
	// Attributed is the number of requests that were attributed to a client. The others came before the sender began to
	// track this key, or had no client.
	Attributed int64
	// Sample holds the smallest different hashes of clients, ascending (a bottom-k sketch): while it is not full, their
	// number is exactly the number of clients.
	Sample []uint32
	// Heavy holds the heaviest clients, heaviest first, each with a lower bound of its requests.
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
	// Cost is the cost of the rule, or "" if each request counts for one. All rates are in its units a second.
	Cost Cost `json:"cost,omitempty"`
	// Rate is the key's requests per second over the rule's window when it was last judged, or their cost per second.
	Rate float64 `json:"rate" metric:"hotparam_hot_key_rate" help:"Requests per second of the 100 hottest keys."`
	// Lower and Upper bound the true rate, because a window that holds more keys than its memory allows knows counts
	// only to within an error. Both equal Rate if the count is exact.
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
	// Share is the key's part of its resource's requests in the window, 0 to 1.
	Share float64 `json:"share"`
	// Baseline is an upper bound of the rate that the key had before, in requests per second; 0 if the rule has no
	// surge, or if the known past is not long enough.
	Baseline float64 `json:"baseline,omitempty"`
	// Why names the criteria by which it became hot: "rate", "share" or "surge", or several joined by "+".
	Why string `json:"why"`
	// Clients is the approximate number of different clients that requested it in the window, or 0 if that is unknown.
	Clients int64 `json:"clients,omitempty"`
	// HeaviestClient is the client with the most requests, and ClientShare its part of the key's requests, 0 to 1;
	// empty if the senders do not report it.
	HeaviestClient string  `json:"heaviest_client,omitempty"`
	ClientShare    float64 `json:"client_share,omitempty"`
	// PeakRate is the highest Rate since the key became hot.
	PeakRate float64 `json:"peak_rate"`
	// Since is the time at which the key crossed its threshold.
	Since time.Time `json:"since"`
	// Until is the time until which the publisher vouches for the entry; it renews that about once a second. Readers
	// keep a key for some minutes beyond it, because a publisher that has fallen silent has not ended the key.
	Until time.Time `json:"until"`
}
