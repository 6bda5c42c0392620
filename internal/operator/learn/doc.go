// Package learn reads request logs and proposes the rules of a site: which
// parameters decide what is asked for, which are noise, from which rate a value
// is viral, and what no person sends.
//
//	logs ──> 1 who asks, and for which paths and parameters    (visitors, paths)
//	     ──> 2 what the values of those parameters are like    (values, roles)
//	     ──> 3 how many ask for one value at a time            (peaks, threshold)
//	     ──> 4 what the proposal would have done               (replay, outcome)
//
// The logs are read once for each step, so that memory is bounded: by the
// clients that are told apart, by the paths, by the parameters that are common
// enough to have a rule, and by one minute of requests. What a bound leaves out
// is told. Step 3 counts under the very keys of the proposed rules, with
// rules.Set.Match, and step 4 is package replay.
//
// A log knows what was asked for. It does not know what the service bears, so
// the limits of a proposal are guesses, say so, and are in shadow mode.
//
// What a log says was chosen by strangers. Nothing of it reaches the proposal
// but as quoted YAML or as printable text in a comment, and the proposal has
// been read by rules.Parse before anybody gets it.
package learn
