package limitcore

import "github.com/hotparam/pipeline/hotparam/hottype"

// The algorithms under the short names that the tables of the tests use.
const (
	TokenBucket    = hottype.TokenBucket
	GCRA           = hottype.GCRA
	LeakyBucket    = hottype.LeakyBucket
	FixedWindow    = hottype.FixedWindow
	AnchoredWindow = hottype.AnchoredWindow
	SlidingWindow  = hottype.SlidingWindow
	SlidingLog     = hottype.SlidingLog
	BucketedWindow = hottype.BucketedWindow
	WarmingUp      = hottype.WarmingUp
)
