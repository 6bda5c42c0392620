package redisclient

import "strconv"

// Keys builds the names of every key and channel of one namespace, except the keys of limits, which package redislimits
// builds. All carry the hash tag {namespace}, so that one script may use several of them on a cluster. No other code
// composes key names.
type Keys struct{ prefix string }

// NewKeys returns the keys of a namespace.
func NewKeys(namespace string) Keys { return Keys{prefix: "hp:{" + namespace + "}:"} }

// Prefix returns the beginning of every name.
func (k Keys) Prefix() string { return k.prefix }

// HotVersion is a string, the last version of a hot set. It expires versionLife after the last publication.
func (k Keys) HotVersion() string { return k.prefix + "hot:version" }

// HotIndex is a hash, publisher -> "version [flag ]expiry" (unix milliseconds by the clock of Redis); flag is blind,
// stopped or judged:…. It expires with its longest-living set; every publication trims its fields.
func (k Keys) HotIndex() string { return k.prefix + "hot:index" }

// HotSet is a hash {epoch, seq, version, base, at, encoding, body}, the set of one publisher: whole, or whole as of
// base and changed since by the log. It outlives its last key by PublisherConfig.Keep, within setLifeMin and
// setLifeMax.
func (k Keys) HotSet(publisher string) string { return k.prefix + "hot:set:" + publisher }

// HotLog is a sorted set, version -> change from the version before, of a large set. It expires as the set.
func (k Keys) HotLog(publisher string) string { return k.prefix + "hot:log:" + publisher }

// HotReceived is a hash, flow -> "sent-first-received", the lines that a publisher received of each sender by StatsD,
// and complete -> 1, or 0 if there may be other senders. It expires receivedLife after its last write.
func (k Keys) HotReceived(publisher string) string { return k.prefix + "hot:received:" + publisher }

// HotEpoch is a string "epoch token lease_end": the process that owns this publisher's id, and the end of its lease
// without another publication (unix milliseconds by the clock of Redis). It expires epochTTL after the last
// publication.
func (k Keys) HotEpoch(publisher string) string { return k.prefix + "hot:epoch:" + publisher }

// HotNotice is a channel. Its messages are the versions of sets just published.
func (k Keys) HotNotice() string { return k.prefix + "hot:notice" }

// Bounds is a string, the limits of upstreams as JSON. It expires boundsLife after the last publication.
func (k Keys) Bounds() string { return k.prefix + "hot:bounds" }

// BoundsOwner is a string, the token of the process whose bounds are in force. It expires boundsLease after its last
// publication.
func (k Keys) BoundsOwner() string { return k.prefix + "hot:bounds_owner" }

// BaseLatency is a string, the latencies of upstreams without a rush as JSON. It expires baseLife after the last write.
func (k Keys) BaseLatency() string { return k.prefix + "hot:base_latency" }

// Aggregators is a hash, aggregator -> its report as JSON. It expires aggregatorLife after the last report; every
// aggregator trims its fields.
func (k Keys) Aggregators() string { return k.prefix + "hot:aggregators" }

// Overrides is a hash, id -> override as JSON. It expires overrideLife after the last write or renewal.
func (k Keys) Overrides() string { return k.prefix + "override:entries" }

// OverrideUntil is a sorted set, id -> end (unix milliseconds), of the overrides that end. It expires as overrides.
func (k Keys) OverrideUntil() string { return k.prefix + "override:until" }

// OverrideVersion is a string that changes with every change. It expires as overrides.
func (k Keys) OverrideVersion() string { return k.prefix + "override:version" }

// OverrideAudit is a list, the last 1000 changes as JSON, newest first, which programs of an earlier version read and
// write instead of OverrideChanges. It expires as overrides.
func (k Keys) OverrideAudit() string { return k.prefix + "override:audit" }

// OverrideLog is a list "version before id" of the last changes, newest first, by which a follower reads only what
// changed. It expires as overrides.
func (k Keys) OverrideLog() string { return k.prefix + "override:log" }

// OverrideChanges is a sorted set, change as JSON -> its number, which is its revision, or higher for changes that were
// restored together. It expires as overrides.
func (k Keys) OverrideChanges() string { return k.prefix + "override:changes" }

// OverrideChangeIndex is a sorted set without scores, "author:<length>:<author>:<number>" and "id:<id>:<number>" of
// each change. It expires as overrides.
func (k Keys) OverrideChangeIndex() string { return k.prefix + "override:change_index" }

// OverrideAuthors is a sorted set, author -> bytes of the author's changes. It expires as overrides.
func (k Keys) OverrideAuthors() string { return k.prefix + "override:authors" }

// OverrideRemoved is a sorted set, id -> version at which the override was removed, of the last removals. It expires as
// overrides.
func (k Keys) OverrideRemoved() string { return k.prefix + "override:removed" }

// OverrideAuditState is a hash: the bytes of all changes, the revision up to which OverrideChanges has the changes of
// OverrideAudit, and the version after which OverrideRemoved is complete. It expires as overrides.
func (k Keys) OverrideAuditState() string { return k.prefix + "override:audit_state" }

// OverrideNotice is a channel. Its messages are the versions after a change.
func (k Keys) OverrideNotice() string { return k.prefix + "override:notice" }

// Rules is a string, the content of the central store as JSON. It expires rulesLife after the last write or renewal.
func (k Keys) Rules() string { return k.prefix + "rules:current" }

// RulesVersion is a string, the version of rules. It expires as rules.
func (k Keys) RulesVersion() string { return k.prefix + "rules:version" }

// RulesHistory is a list, the last changes of the rules as JSON, newest first. It expires as rules.
func (k Keys) RulesHistory() string { return k.prefix + "rules:history" }

// RulesNotice is a channel. Its messages are the versions after a change.
func (k Keys) RulesNotice() string { return k.prefix + "rules:notice" }

// Report is a string, one limiter's report as JSON. It expires after reportLife.
func (k Keys) Report(instance string) string { return k.prefix + "report:" + instance }

// ReportIndex is a sorted set, instance -> expiry of its report (unix milliseconds). It expires reportLife after the
// last report; each report trims it.
func (k Keys) ReportIndex() string { return k.prefix + "report:index" }

// Commands is a sorted set, command -> version, of the last commands to every process. It expires commandLife after the
// last command.
func (k Keys) Commands() string { return k.prefix + "command:log" }

// CommandNotice is a channel. Its messages are the versions of commands just sent.
func (k Keys) CommandNotice() string { return k.prefix + "command:notice" }

// PassSecret is a string, the secret that signs the passes of a day, in base64. It expires when no pass of that day is
// valid any more.
func (k Keys) PassSecret(day int64) string {
	return k.prefix + "pass:secret:" + strconv.FormatInt(day, 10)
}

// Probe is a string without meaning. Programs that may write reports write it to test whether the server takes writes.
// It expires after a second.
func (k Keys) Probe() string { return k.prefix + "report:probe" }

// Doctor is a channel without subscribers, to which Inspect publishes to test its right.
func (k Keys) Doctor() string { return k.prefix + "doctor" }
