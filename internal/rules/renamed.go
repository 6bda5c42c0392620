package rules

// oldNames are the fields and settings that had another name before, and the name they have now. Fields of rules stand
// alone, settings of programs with their section. Package config reads this table too, so there is one for all.
var oldNames = map[string]string{
	"cool":            "cooldown",
	"cool_ratio":      "release_ratio",
	"initial":         "initial_tokens",
	"trial":           "candidate",
	"aggregator.trim": "aggregator.cleanup_schedule",
	"detect.hold":     "detect.hot_ttl",
	"kafka.tls_name":  "kafka.tls_server_name",
	"sidecar.lease":   "sidecar.prefetch",
	"statsd.idle":     "statsd.idle_timeout",
	"tally.clients":   "tally.track_clients",
}

// CurrentName gives the name that a field or setting has now; ok is false for a name that never changed.
func CurrentName(old string) (name string, ok bool) {
	name, ok = oldNames[old]
	return name, ok
}

// OldName gives the name that a field or setting had before, "" for none.
func OldName(name string) string {
	for old, now := range oldNames {
		if now == name {
			return old
		}
	}
	return ""
}
