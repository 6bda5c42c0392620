package redisstore

import "time"

// How long things live in Redis. Every key expires.
const (
	// epochLife is how long a publisher's fence outlives its last publication.
	// A process that was frozen for longer comes back with keys whose Until
	// passed long ago.
	epochLife = 24 * time.Hour
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
)

// keys builds the names of every key and channel of one namespace. All carry
// the hash tag {namespace}, so that one script may touch several of them on a
// cluster. No key is put together anywhere else but in keys_limit.go, which has
// the states of the limits.
type keys struct{ prefix string }

func newKeys(namespace string) keys { return keys{prefix: "hp:{" + namespace + "}:"} }

// hotVersion: string, the last version given to a hot set. Expires versionLife
// after the last publication.
func (k keys) hotVersion() string { return k.prefix + "hot:version" }

// hotIndex: hash, publisher -> "version expiry" (unix milliseconds by the clock
// of Redis), or "version blind expiry". Expires with its longest-living set; fields are trimmed by every
// publication.
func (k keys) hotIndex() string { return k.prefix + "hot:index" }

// hotSet: hash {epoch, seq, version, base, at, encoding, body}, the set of one
// publisher: whole, or whole as of base and changed since by the log. Outlives
// its last key by PublisherConfig.Keep, within setLifeMin and setLifeMax.
func (k keys) hotSet(publisher string) string { return k.prefix + "hot:set:" + publisher }

// hotLog: sorted set, version -> change from the version before, of a large set.
// Expires as the set.
func (k keys) hotLog(publisher string) string { return k.prefix + "hot:log:" + publisher }

// hotEpoch: string "epoch token lease_end", the process that owns this
// publisher's id and until when (unix milliseconds by the clock of Redis) it
// does without publishing again. Expires epochLife after the last publication.
func (k keys) hotEpoch(publisher string) string { return k.prefix + "hot:epoch:" + publisher }

// hotNotice: channel, the version of a set just published.
func (k keys) hotNotice() string { return k.prefix + "hot:notice" }

// overrides: hash, id -> override as JSON. Expires overrideLife after the last
// write or renewal.
func (k keys) overrides() string { return k.prefix + "override:entries" }

// overrideUntil: sorted set, id -> end of the override (unix milliseconds), for
// those that end. Expires as overrides.
func (k keys) overrideUntil() string { return k.prefix + "override:until" }

// overrideVersion: string, changes with every change. Expires as overrides.
func (k keys) overrideVersion() string { return k.prefix + "override:version" }

// overrideAudit: list, the last auditMax changes as JSON, newest first. Expires
// as overrides.
func (k keys) overrideAudit() string { return k.prefix + "override:audit" }

// overrideNotice: channel, the version after a change.
func (k keys) overrideNotice() string { return k.prefix + "override:notice" }

// report: string, one limiter's report as JSON. Expires after reportLife.
func (k keys) report(instance string) string { return k.prefix + "report:" + instance }

// reportIndex: sorted set, instance -> expiry of its report (unix
// milliseconds). Expires reportLife after the last report; trimmed by each.
func (k keys) reportIndex() string { return k.prefix + "report:index" }

// check: string and channel, written by Inspect to see that it may. Expires
// after a second.
func (k keys) check() string { return k.prefix + "check" }
