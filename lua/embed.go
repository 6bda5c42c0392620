// Package lua carries the scripts that run inside Redis, as text. Each is a
// .lua file whose header says its keys, its arguments, what it returns and what
// it costs. Packages redisfeed and redislimits are the callers; other languages may load the
// same files.
//
// Scripts take the time from Redis, give every key an expiry, pass whole
// numbers in and out, and use nothing that Redis 6, Valkey or miniredis lacks.
package lua

import _ "embed"

// The parts of "decide" and "decide many", in the order in which they are joined. A part uses
// what the parts before it define, so that nothing is written twice.
var (
	//go:embed limit_prelude.lua
	limitPrelude string
	//go:embed limit_token_bucket.lua
	limitTokenBucket string
	//go:embed limit_fixed_window.lua
	limitFixedWindow string
	//go:embed limit_sliding_window.lua
	limitSlidingWindow string
	//go:embed limit_adopt.lua
	limitAdopt string
	//go:embed limit_anchored_window.lua
	limitAnchoredWindow string
	//go:embed limit_sliding_log.lua
	limitSlidingLog string
	//go:embed limit_warming_up.lua
	limitWarmingUp string
	//go:embed limit_decide.lua
	limitDecide string
	//go:embed limit_one_bucket.lua
	limitOneBucket string
	//go:embed limit_many.lua
	limitMany string
)

// Decide is the script that judges the charges of one request, all or nothing;
// see limit_decide.lua.
func Decide() string {
	return buckets() + windows() + limitAnchoredWindow + limitSlidingLog + limitWarmingUp + limitDecide
}

// DecideMany is the script that judges many requests in one call; see
// limit_many.lua.
func DecideMany() string { return buckets() + limitOneBucket + windows() + limitMany }

func buckets() string { return limitPrelude + limitTokenBucket }

func windows() string { return limitFixedWindow + limitSlidingWindow + limitAdopt }
