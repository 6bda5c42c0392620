package detect

import "time"

// The defaults of Options.
const (
	DefaultMaxKeys  = 1_000_000
	DefaultLateness = 10 * time.Second
	DefaultFuture   = 2 * time.Second
	DefaultHold     = 5 * time.Second
)

// Options bound a Detector. The zero value has the defaults; what is negative
// counts as not set.
type Options struct {
	// MaxKeys caps the distinct keys counted per rule; 0 means 1,000,000. A
	// new key beyond it is dropped and counted, so memory stays bounded and
	// no count is wrong in silence.
	MaxKeys int
	// Lateness is how old a count may be, by its second; 0 means 10 s. A rule
	// never uses more of it than its window. Whole seconds, rounded up.
	Lateness time.Duration
	// Future is how far ahead of now a count's second may be, for senders
	// with a fast clock; 0 means 2 s. Such counts are judged when their
	// second comes. Whole seconds, rounded up.
	Future time.Duration
	// Hold is how long a published key stays hot for readers that hear
	// nothing more: Hot.Until = now + Hold; 0 means 5 s.
	Hold time.Duration
}

func (o Options) withDefaults() Options {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	o.Lateness = orDefault(o.Lateness, DefaultLateness)
	o.Future = orDefault(o.Future, DefaultFuture)
	o.Hold = orDefault(o.Hold, DefaultHold)
	return o
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// seconds is d in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
