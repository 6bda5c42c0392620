package hottype

// Algorithm names a way of limiting, as a string that rules files use too. Package limit has these names for users, and
// docs/limits.md explains each.
type Algorithm string

// The algorithms.
const (
	TokenBucket    Algorithm = "token_bucket"
	GCRA           Algorithm = "gcra"
	LeakyBucket    Algorithm = "leaky_bucket"
	FixedWindow    Algorithm = "fixed_window"
	AnchoredWindow Algorithm = "anchored_window"
	SlidingWindow  Algorithm = "sliding_window"
	SlidingLog     Algorithm = "sliding_log"
	BucketedWindow Algorithm = "bucketed_window"
	WarmingUp      Algorithm = "warming_up"
)
