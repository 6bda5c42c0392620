// Package learn reads request logs and proposes the rules of a site: which
// parameters decide which page a request is for, which are noise, from which
// rate a value is viral, and which rates no person reaches.
//
//	logs ──> 1 clients, paths and parameters           (client_kinds, paths)
//	     ──> 2 the values of those parameters          (values, roles)
//	     ──> 3 how many clients request one value      (peaks, threshold)
//	     ──> 4 what the proposal would have done       (dry_run)
//
// Each step reads the logs anew, so that memory is bounded: by the number of
// clients, of paths, and of parameters that are common enough to have a rule,
// and by one minute of requests. The proposal reports what a bound leaves out.
// Step 3 counts under the keys of the proposed rules, with rules.Set.Match, and
// step 4 uses package replay.
//
// A log shows the requests. It does not show the capacity of the service, so
// the limits of a proposal are guesses, are marked so, and are in shadow mode.
//
// The content of a log is untrusted. It reaches the proposal only as quoted YAML
// or as printable text in a comment, and rules.Parse has read the proposal
// before Learn returns it.
package learn
