package detect

import (
	"cmp"
	"math/bits"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/window"
)

// The defaults of Options, and the most that Counters can be.
const (
	DefaultCounters = window.DefaultCounters
	MaxCounters     = window.MaxCounters // more are not had
	DefaultLateness = 10 * time.Second
	DefaultFuture   = hottype.MaxFuture
	DefaultHotTTL   = 5 * time.Second
	DefaultSketches = 4096
)

// maxShards is how many shards there are at most.
const maxShards = 64

// Options bound a Detector. The zero value has the defaults; what is negative
// counts as not set.
type Options struct {
	// Counters caps what is counted for each rule: a key takes one counter for
	// each second of the window in which it is seen. 0 means 131,072, of about
	// 200 bytes at most. Beyond it the lightest keys are given up and sums are
	// lower bounds with a known error: see Stats.Error.
	Counters int
	// MaxRate is how many requests per second one rule is expected to get at
	// most, where the rule does not say it itself (max_rate); 0: not stated.
	// Only Check looks at it.
	MaxRate float64
	// Shards is in how many parts, each with a lock of its own, keys are
	// counted, so that so many goroutines can Add at the same time; 0 means 1.
	// Rounded up to a power of two. The counters are shared out evenly.
	Shards int
	// Lateness is how old a count may be, by its second; 0 means 10 s. A rule
	// never uses more of it than its window. Whole seconds, rounded up.
	Lateness time.Duration
	// Future is how far ahead of now a count's second may be, for senders
	// with a fast clock; 0 means 2 s. Such counts are judged when their
	// second comes. Whole seconds, rounded up.
	Future time.Duration
	// HotTTL is how long a set keeps its keys hot: Hot.Until = now + HotTTL;
	// 0 means 5 s.
	HotTTL time.Duration
	// MaxSketches caps the keys of which the clients are held, those near their
	// threshold, over all rules; 0 means 4096. Each takes up to about 5 KB.
	// Beyond it the lightest of the network that has most of them are given up; such a key
	// counts as one client's until its clients are known again.
	MaxSketches int
	// NoClients says that the source of the counts cannot name the clients
	// (Graphite). Then min_clients holds nothing back. Otherwise requests of which
	// without a client count as those of one client.
	NoClients bool
}

func (o Options) withDefaults() Options {
	o.Counters = min(cmp.Or(max(o.Counters, 0), DefaultCounters), MaxCounters)
	o.MaxSketches = cmp.Or(max(o.MaxSketches, 0), DefaultSketches)
	o.Shards = 1 << bits.Len(uint(min(max(o.Shards, 1), maxShards)-1))
	o.Lateness = cmp.Or(max(o.Lateness, 0), DefaultLateness)
	o.Future = cmp.Or(max(o.Future, 0), DefaultFuture)
	o.HotTTL = cmp.Or(max(o.HotTTL, 0), DefaultHotTTL)
	return o
}

// perShard is how many counters a shard has for one rule.
func (o Options) perShard() int { return max(o.Counters/o.Shards, 1) }

// seconds is d in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
