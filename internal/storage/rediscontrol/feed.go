// Package rediscontrol exchanges the state that the processes of a namespace share through Redis: the hot set, the
// overrides, and the decisions of each limiter. Each writer stands beside its reader, and docs/redis.md describes every
// byte.
//
//	aggregator ── Publisher.Publish ──> hot set ── Follow ──> replica of each limiter
//	admin ─────── OverrideStore.Put ──> overrides ─ Follow ─> gate of each limiter
//	limiter ───── Reporter ───────────> reports ── ReadReports ──> dashboard
//
// Nothing here needs the server to be up: calls fail within their timeout, followers keep the last state and catch up
// by themselves. Each followed state is pushed by a notice and polled twice a second besides, so a lost notice costs
// half a second and nothing else.
//
// A large hot set is sent as changes, and whole if a change is missing. One process publishes under an id, as long as
// it publishes more often than its lease is long; other processes with the same id stand by: see [Publisher].
package rediscontrol

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/lua"
)

// Lifetimes in Redis. Every key expires.
const (
	// epochTTL is how long a publisher's fence outlives its last publication. A process that was frozen for longer
	// resumes with keys whose Until passed long ago.
	epochTTL = 24 * time.Hour
	// versionLife may be short because a lost counter starts again above all versions, at the clock of Redis.
	versionLife = 24 * time.Hour
	// setLifeMin lets every follower see an empty set before it expires, and setLifeMax bounds the life of a set of a
	// publisher with a wrong clock.
	setLifeMin = 10 * time.Second
	setLifeMax = 24 * time.Hour
	// receivedLife is the life of the numbers of lines that a publisher received of each sender.
	receivedLife = 10 * time.Second
	// overrideLife is the only long life, because people set overrides and decide when each ends. Every write renews
	// it, and once an hour every follower: overrides outlive any pause, and expire a year after the last program that
	// used them.
	overrideLife = 366 * 24 * time.Hour
	// reportLife is how long a limiter that fell silent counts as alive.
	reportLife = 5 * time.Second
	// commandLife is how long a follower that missed the notice can still read a command.
	commandLife = time.Minute
)

// Feed connects a process to the state of its namespace in Redis. Any number of goroutines may share it. A process has
// one Feed, because its statistics describe one process.
type Feed struct {
	rdb     redis.UniversalClient
	keys    redisclient.Keys
	timeout time.Duration
	log     *slog.Logger
	// now is the process clock. It stamps times for people (audit entries) and measures ages; versions and expiries use
	// the clock of Redis.
	now       func() time.Time
	polled    time.Time // a moment at which followers poll
	hot       followState
	overrides followState
	commands  followState
	rules     followState
	counters  counted[Stats]
	limiters  atomic.Int64 // live limiters by the reply to the last report; 0 before the first
	// overridesKnown is the state that this process enforces, or nil before it knows one. overridesBehind is true while
	// Redis has an older state. This process does not try to write its state back until overridesDenied (unix
	// nanoseconds).
	overridesKnown  atomic.Pointer[overrideCopy]
	overridesBehind atomic.Bool
	overridesDenied atomic.Int64
	absurdVersion   atomic.Pointer[string] // last rejected version of the overrides, or nil
	decoded         decodedOverrides
	maxAudit        int // bytes of the audit: rules.MaxAuditBytes, or less in tests
	// overridesHeld is the version that a follower's fn received last, and heldChanged holds a signal after it changed.
	overridesHeld atomic.Int64
	heldChanged   chan struct{}
	arrivals      *Arrivals     // nil if no sender of this process compares its counts
	knownChanged  chan struct{} // holds a signal after overridesKnown changed
}

// New returns the feed of a client's namespace. It starts nothing.
func New(c *redisclient.Client) *Feed {
	cfg := c.Config()
	return &Feed{
		rdb: c.Redis(), keys: redisclient.NewKeys(cfg.Namespace), timeout: cfg.Timeout, log: cfg.Log, now: cfg.Now,
		polled:      time.Now().Add(-rand.N(pollEvery)),
		maxAudit:    rules.MaxAuditBytes,
		heldChanged: make(chan struct{}, 1), knownChanged: make(chan struct{}, 1),
	}
}

// Scripts are run by their digest. A server that does not know one, after a restart, is sent its text, which costs one
// more round trip, once.
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

// Stats counts the work of this process on the feed so far. Counters only grow.
type Stats struct {
	// Hot, Overrides and Commands describe how well the followers keep up. Several followers of one kind share the
	// figures.
	Hot       FollowStats `prefix:"hotparam_redis_hot" help:"hot set"`
	Overrides FollowStats `prefix:"hotparam_redis_overrides" help:"overrides"`
	Commands  FollowStats `prefix:"hotparam_redis_commands" help:"commands"`

	Published          uint64  `metric:"hotparam_redis_published_total" help:"Hot sets written to Redis."`
	PublishedWhole     uint64  `metric:"hotparam_redis_published_whole_total" help:"Hot sets written whole and not as changes."`
	PublishedBytes     uint64  `metric:"hotparam_redis_published_bytes_total" help:"Bytes of hot sets and changes written."`
	Publishing         bool    `metric:"hotparam_redis_publishing" help:"1 while this aggregator is the active aggregator of its id."`
	Takeovers          uint64  `metric:"hotparam_redis_takeovers_total" help:"Times that this aggregator became the active aggregator of its id."`
	Fenced             uint64  `metric:"hotparam_redis_fenced_total" help:"Hot sets that Redis rejected because another aggregator is active or Redis holds a newer set."`
	PublishErrors      uint64  `metric:"hotparam_redis_publish_errors_total" help:"Writes of a hot set that failed."`
	ReportErrors       uint64  `metric:"hotparam_redis_report_errors_total" help:"Reports of this limiter that could not be written."`
	ReportKeysCut      uint64  `metric:"hotparam_redis_report_keys_cut_total" help:"Keys left out of reports that had too many."`
	OverridesLost      uint64  `metric:"hotparam_redis_overrides_lost_total" help:"Times that Redis held older overrides than this process."`
	OverridesRestored  uint64  `metric:"hotparam_redis_overrides_restored_total" help:"Times that this process wrote the overrides in force back to Redis."`
	OverridesBehind    bool    `metric:"hotparam_redis_overrides_behind" help:"1 while Redis holds older overrides than this process, which may not write."`
	CopyFailing        bool    `metric:"hotparam_redis_overrides_copy_failing" help:"1 while the copy of the overrides on disk cannot be written."`
	OverridesMalformed uint64  `metric:"hotparam_redis_override_entries_malformed_total" help:"Malformed overrides in Redis, counted at each read."`
	AuditDropped       uint64  `metric:"hotparam_redis_audit_dropped_total" help:"Changes of overrides that this process dropped from the audit in Redis because it was full."`
	AuditBytes         float64 `metric:"hotparam_redis_audit_bytes" help:"Size of the audit of overrides in Redis after the last write of this process."`
	ReportsMalformed   uint64  `metric:"hotparam_redis_reports_malformed_total" help:"Malformed reports in Redis, counted at each read."`
}

// FollowStats describes how well a follower keeps up with Redis.
type FollowStats struct {
	Syncs         uint64  `metric:"_syncs_total" help:"Reads that succeeded ({})."`
	Errors        uint64  `metric:"_errors_total" help:"Reads that failed ({})."`
	Notices       uint64  `metric:"_notices_total" help:"Notices of a change received ({})."`
	MissedNotices uint64  `metric:"_missed_notices_total" help:"Changes found by polling that no notice announced ({})."`
	Reconnects    uint64  `metric:"_reconnects_total" help:"Times that the subscription to notices was renewed ({})."`
	Malformed     uint64  `metric:"_malformed_total" help:"Malformed sets in Redis ({})."`
	Bytes         uint64  `metric:"_bytes_total" help:"Bytes of sets and changes read ({})."`
	Whole         uint64  `metric:"_whole_total" help:"Sets read whole and not as changes ({})."`
	Gaps          uint64  `metric:"_gaps_total" help:"Sets for which changes were missing ({})."`
	AgeSeconds    float64 `metric:"_age_seconds" help:"Time since the last read that succeeded; -1 before the first ({})."`
	// Err is the error of the last poll, or "" if it succeeded.
	Err string
}

// counted holds statistics to which several goroutines add, some times a second.
type counted[S any] struct {
	mu sync.Mutex
	s  S // guarded by mu
}

func (c *counted[S]) add(to func(*S)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to(&c.s)
}

func (c *counted[S]) read() (s S) {
	c.add(func(now *S) { s = *now })
	return s
}

func (f *Feed) Stats() Stats {
	now, out := f.now(), f.counters.read()
	out.Hot, out.Overrides, out.Commands = f.hot.statsAt(now), f.overrides.statsAt(now), f.commands.statsAt(now)
	out.OverridesBehind = f.overridesBehind.Load()
	return out
}

// followState holds the state that followers of one kind write and Stats reads.
type followState struct {
	counted[FollowStats]
	last          time.Time // guarded by mu
	err           error     // guarded by mu
	subscriptions atomic.Uint64
}

// recordPoll records how a poll of Redis ended, and returns the error of the poll before, so that a follower logs
// changes only.
func (s *followState) recordPoll(now time.Time, err error) (before error) {
	s.add(func(st *FollowStats) {
		if before, s.err = s.err, err; err != nil {
			st.Errors++
			return
		}
		st.Syncs++
		s.last = now
	})
	return before
}

func (s *followState) statsAt(now time.Time) (out FollowStats) {
	s.add(func(st *FollowStats) {
		out = *st
		out.AgeSeconds, out.Reconnects = -1, max(s.subscriptions.Load(), 1)-1
		if !s.last.IsZero() {
			out.AgeSeconds = now.Sub(s.last).Seconds()
		}
		if s.err != nil {
			out.Err = s.err.Error()
		}
	})
	return out
}
