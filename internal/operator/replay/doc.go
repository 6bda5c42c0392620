// Package replay runs request logs through the pipeline and tells what would
// have been hot and what would have been limited.
//
//	log ──> lines ──> accesslog ─┐
//	log ──> lines ──> accesslog ─┼─> order ──> one second at a time ──> gate.Gate, with limits in memory
//	log ──> lines ──> accesslog ─┘   by log time                 └────> detect.Detector ──> hotset.Replica
//
// It drives the very gate and detector that run in production, with the log's
// own time as their clock, in one goroutine. So the report depends on the rules
// and on which lines the logs hold, and on nothing else: not on the machine, on
// the speed, on the order of the files, or on the order of lines as far as they
// are at most Config.Lateness behind those of the same file.
//
// Most logs have whole seconds. Where no request of a second has a finer time,
// the i-th of its n requests is taken to happen i/n into the second, in an
// order drawn by a fixed hash of what they are: neither clumped nor favouring
// what a server happened to write first. Each request is decided first and
// counted then. Keys are judged and published ten times a second, at whole
// tenths, as an aggregator does; a tenth at which nothing can have changed is
// left out, which changes nothing that is said.
//
// Nothing in a log is fatal and nothing is lost in silence: broken lines, late
// lines, and what is beyond a bound are counted in the report.
package replay
