// Package accesslog reads one line of a request log and gives the request it
// tells of and when it happened.
//
//	line ──> [Format.Parse] ──> [Entry]: hotparam.Request, unix second, nanoseconds
//
// Three formats are known. [Combined] is what Apache and nginx write: common or
// combined, with or without a virtual host in front. [Events] is tab-separated
// unix_seconds client method target. [JSONL] is one object a line. [Detect]
// tells them apart by their first lines.
//
// Lines come from strangers, so nothing in a line is believed further than it
// can be checked: a client cannot move the time, the address or the request of
// its own line by what it sends, as long as the server escapes quotes. What
// does not parse is an [*Error] that says what is wrong; nothing panics.
//
// The package is pure: a line is an argument, and no file or clock is read. All
// functions may be used by many goroutines. Strings in an Entry are parts of
// the line, so keeping one keeps the line's memory: clone what is kept.
package accesslog
