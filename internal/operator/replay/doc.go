// Package replay runs request logs through the pipeline and reports which keys
// would have been hot and which requests would have been denied.
//
//	log ──> lines ──> accesslog ─┐
//	log ──> lines ──> accesslog ─┼─> order ──> one second at a time ──> gate.Gate, with limits in memory
//	log ──> lines ──> accesslog ─┘   by log time                 └────> detect.Detector ──> hotset.Replica
//
// It drives the same gate and detector as production, with the log's own time
// as their clock, in one goroutine. So the report depends only on the rules and
// on the set of lines in the logs: not on the machine, on the speed, on the
// order of the files, or on the order of lines as long as they are at most
// Config.Lateness behind those of the same file.
//
// Most logs have whole seconds. If no request of a second has a finer time, the
// i-th of its n requests is taken to happen i/n into the second, in the order
// of a fixed hash of their content: equal requests are spread over the second,
// and the order in which a server wrote its lines has no influence. Each request
// is decided first and then counted. Keys are judged and published ten times a
// second, at whole tenths, as an aggregator does; a tenth at which nothing can
// have changed is skipped, which does not change the report.
//
// No error in a log is fatal and no loss is silent: malformed lines, late lines,
// and requests beyond a bound are counted in the report.
package replay
