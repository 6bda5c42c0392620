// Package rediscontrol is what the processes of a namespace tell each other through
// Redis: which keys are hot, which overrides hold, what each limiter decided. What is
// written and what is read stand side by side, every byte in docs/redis.md.
//
//	aggregator ── Publisher.Publish ──> hot set ── Follow ──> replica of each limiter
//	admin ─────── OverrideStore.Put ──> overrides ─ Follow ─> gate of each limiter
//	limiter ───── Reporter ───────────> reports ── ReadReports ──> dashboard
//
// Nothing here needs the server to be up: calls fail within their timeout, followers
// keep what they know and catch up by themselves. What is followed is pushed by a
// notice and polled twice a second besides, so a lost notice costs half a second and
// nothing else.
//
// A large hot set travels as changes, and whole where one is missing. One process
// publishes under an id, as long as it does so more often than its lease is long;
// others with the same id stand by: see [Publisher].
package rediscontrol

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/lua"
)

// How long things live in Redis. Every key expires.
const (
	// epochTTL is how long a publisher's fence outlives its last publication.
	// A process that was frozen for longer comes back with keys whose Until
	// passed long ago.
	epochTTL = 24 * time.Hour
	// versionLife may be short: a lost counter starts again at the clock of
	// Redis in milliseconds, above every version given before.
	versionLife = 24 * time.Hour
	// setLifeMin lets every follower see an empty set before it goes, setLifeMax
	// bounds what a publisher with a wrong clock can leave behind.
	setLifeMin = 10 * time.Second
	setLifeMax = 24 * time.Hour
	// overrideLife is the one long life: overrides belong to people, who say
	// themselves when each ends. It is renewed by every write and, once an hour,
	// by every follower: overrides outlive any pause, and go a year after the
	// last program that cared about them.
	overrideLife = 366 * 24 * time.Hour
	// reportLife is how long a limiter that fell silent counts as alive.
	reportLife = 5 * time.Second
	// commandLife is for how long a follower that missed the notice can learn of a command.
	commandLife = time.Minute
)

// Feed is what the processes of a namespace tell each other through Redis. Any number
// of goroutines may share it. Its figures are those of one process, so a process has
// one.
type Feed struct {
	rdb     redis.UniversalClient
	keys    redisclient.Keys
	timeout time.Duration
	log     *slog.Logger
	// now is the process clock. It stamps what people read (audit entries) and
	// measures ages; versions and expiries use the clock of Redis.
	now       func() time.Time
	hot       followState
	overrides followState
	commands  followState
	rules     followState
	counters  counted[Stats]
	// overridesKnown is what this process enforces; nil: nothing follows.
	// overridesBehind says that Redis has an older state. Until overridesDenied
	// (unix nanoseconds) this process does not try to write it again.
	overridesKnown  atomic.Pointer[overrideCopy]
	overridesBehind atomic.Bool
	overridesDenied atomic.Int64
	// overridesHeld is the version that a follower's fn was given last, and heldChanged
	// holds a signal that it is a new one.
	overridesHeld atomic.Int64
	heldChanged   chan struct{}
	knownChanged  chan struct{} // holds a signal that overridesKnown is a new one
}

// New gives the feed of a client's namespace. It starts nothing.
func New(c *redisclient.Client) *Feed {
	cfg := c.Config()
	return &Feed{
		rdb: c.Redis(), keys: redisclient.NewKeys(cfg.Namespace), timeout: cfg.Timeout, log: cfg.Log, now: time.Now,
		heldChanged: make(chan struct{}, 1), knownChanged: make(chan struct{}, 1),
	}
}

// Scripts are run by their digest; a server that does not know one, after a
// restart, is sent its text (one round trip more, once).
var (
	claimHot         = redis.NewScript(lua.ClaimHot())
	publishHot       = redis.NewScript(lua.PublishHot())
	publishBounds    = redis.NewScript(lua.PublishBounds())
	writeOverride    = redis.NewScript(lua.WriteOverride())
	restoreOverrides = redis.NewScript(lua.RestoreOverrides())
	writeReport      = redis.NewScript(lua.WriteReport())
	writeCommand     = redis.NewScript(lua.WriteCommand())
	writeRules       = redis.NewScript(lua.WriteRules())
)
