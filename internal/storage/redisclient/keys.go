package redisclient

// Keys builds the names of every key and channel of one namespace, except those of
// limits, which package redislimits builds. All carry the hash tag {namespace}, so
// that one script may touch several of them on a cluster. No key is put together
// anywhere else.
type Keys struct{ prefix string }

// NewKeys are the keys of a namespace.
func NewKeys(namespace string) Keys { return Keys{prefix: "hp:{" + namespace + "}:"} }

// Prefix begins every name.
func (k Keys) Prefix() string { return k.prefix }

// HotVersion is a string, the last version given to a hot set. Expires versionLife
// after the last publication.
func (k Keys) HotVersion() string { return k.prefix + "hot:version" }

// HotIndex is a hash, publisher -> "version expiry" (unix milliseconds by the clock of Redis), or "version blind
// expiry", or "version stopped expiry". Expires with its longest-living set; fields are trimmed by every publication.
func (k Keys) HotIndex() string { return k.prefix + "hot:index" }

// HotSet is a hash {epoch, seq, version, base, at, encoding, body}, the set of one
// publisher: whole, or whole as of base and changed since by the log. Outlives
// its last key by PublisherConfig.Keep, within setLifeMin and setLifeMax.
func (k Keys) HotSet(publisher string) string { return k.prefix + "hot:set:" + publisher }

// HotLog is a sorted set, version -> change from the version before, of a large set.
// Expires as the set.
func (k Keys) HotLog(publisher string) string { return k.prefix + "hot:log:" + publisher }

// HotReceived is a hash, flow -> "sent-first-received", what a publisher received of each sender by StatsD, and
// complete -> 1, or 0 if there may be others. Expires receivedLife after the last publication.
func (k Keys) HotReceived(publisher string) string { return k.prefix + "hot:received:" + publisher }

// HotEpoch is a string "epoch token lease_end", the process that owns this
// publisher's id and until when (unix milliseconds by the clock of Redis) it
// does without publishing again. Expires epochLife after the last publication.
func (k Keys) HotEpoch(publisher string) string { return k.prefix + "hot:epoch:" + publisher }

// HotNotice is a channel, the version of a set just published.
func (k Keys) HotNotice() string { return k.prefix + "hot:notice" }

// Bounds is a string, what upstreams bear as JSON. Expires boundsLife after the last
// publication.
func (k Keys) Bounds() string { return k.prefix + "hot:bounds" }

// BoundsOwner is a string, the token of the process whose bounds stand. Expires
// boundsLease after its last publication.
func (k Keys) BoundsOwner() string { return k.prefix + "hot:bounds_owner" }

// Aggregators is a hash, aggregator -> what it says of itself, as JSON. Expires aggregatorLife after the last report;
// fields are trimmed by every aggregator.
func (k Keys) Aggregators() string { return k.prefix + "hot:aggregators" }

// Overrides is a hash, id -> override as JSON. Expires overrideLife after the last
// write or renewal.
func (k Keys) Overrides() string { return k.prefix + "override:entries" }

// OverrideUntil is a sorted set, id -> end of the override (unix milliseconds), for
// those that end. Expires as overrides.
func (k Keys) OverrideUntil() string { return k.prefix + "override:until" }

// OverrideVersion is a string, changes with every change. Expires as overrides.
func (k Keys) OverrideVersion() string { return k.prefix + "override:version" }

// OverrideAudit is a list, the last auditMax changes as JSON, newest first. Expires
// as overrides.
func (k Keys) OverrideAudit() string { return k.prefix + "override:audit" }

// OverrideNotice is a channel, the version after a change.
func (k Keys) OverrideNotice() string { return k.prefix + "override:notice" }

// Rules is a string, what the central store holds, as JSON. Expires rulesLife after the
// last write or renewal.
func (k Keys) Rules() string { return k.prefix + "rules:current" }

// RulesVersion is a string, the version of rules. Expires as rules.
func (k Keys) RulesVersion() string { return k.prefix + "rules:version" }

// RulesHistory is a list, the last changes of the rules as JSON, newest first. Expires
// as rules.
func (k Keys) RulesHistory() string { return k.prefix + "rules:history" }

// RulesNotice is a channel, the version after a change.
func (k Keys) RulesNotice() string { return k.prefix + "rules:notice" }

// Report is a string, one limiter's report as JSON. Expires after reportLife.
func (k Keys) Report(instance string) string { return k.prefix + "report:" + instance }

// ReportIndex is a sorted set, instance -> expiry of its report (unix
// milliseconds). Expires reportLife after the last report; trimmed by each.
func (k Keys) ReportIndex() string { return k.prefix + "report:index" }

// Commands is a sorted set, command -> version, of the last commands to every process.
// Expires commandLife after the last one.
func (k Keys) Commands() string { return k.prefix + "command:log" }

// CommandNotice is a channel, the version of a command just given.
func (k Keys) CommandNotice() string { return k.prefix + "command:notice" }

// Probe is a string without meaning, written to see whether the server takes writes, by
// programs that may write reports. Expires after a second.
func (k Keys) Probe() string { return k.prefix + "report:probe" }

// Doctor is a channel without subscribers, to which Inspect publishes to test its right.
func (k Keys) Doctor() string { return k.prefix + "doctor" }
