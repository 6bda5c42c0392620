package metrics

import "github.com/hotparam/pipeline/internal/serving/listener"

// AccessLogStats counts the lines of all access logs that a program follows.
type AccessLogStats struct {
	Lines     uint64 `metric:"hotparam_accesslog_lines_total" help:"Lines read."`
	TooLong   uint64 `metric:"hotparam_accesslog_too_long_total" help:"Lines not read because they are too long."`
	Malformed uint64 `metric:"hotparam_accesslog_malformed_total" help:"Lines that cannot be read."`
	Skipped   uint64 `metric:"hotparam_accesslog_skipped_total" help:"Empty lines and comments."`
	Errors    uint64 `metric:"hotparam_accesslog_errors_total" help:"Failures to open or read a log."`
}

// ListenerStats are the statistics of a program's HTTP listeners by name.
type ListenerStats struct {
	Listeners map[string]listener.Stats `label:"listener"`
}

// ReloadStats records how the last reload of the configuration ended. The start counts
// as one.
type ReloadStats struct {
	Success   bool  `metric:"hotparam_config_reload_success" help:"1; 0 while the last change of the configuration is refused and the rules from before it hold."`
	Timestamp int64 `metric:"hotparam_config_reload_timestamp_seconds" help:"When a configuration was last taken, in unix seconds."`
	// Hash is what a fleet must have in common: the first 48 bits of the SHA-256 of
	// the file in force, 0 without one.
	Hash int64 `metric:"hotparam_config_reload_hash" help:"Number made of the configuration file in force, the same for the same bytes; 0: no file."`
}

// RulesStats records how well a program follows its central store of rules.
type RulesStats struct {
	Version      int64 `metric:"hotparam_rules_version" help:"Version of the rules in force, by the central store; 0: they are those of a file."`
	Stored       int64 `metric:"hotparam_rules_stored_version" help:"Version that the central store of rules held last."`
	Refused      bool  `metric:"hotparam_rules_refused" help:"1 while rules in the central store are refused and those from before them hold."`
	Behind       bool  `metric:"hotparam_rules_behind" help:"1 while the central store has lost the rules that are in force."`
	StoreFailing bool  `metric:"hotparam_rules_store_failing" help:"1 while the central store of rules does not answer or holds none."`
	CopyFailing  bool  `metric:"hotparam_rules_copy_failing" help:"1 while no copy of the central rules is kept on disk."`
}
