// Package tail follows a log file, or reads standard input, line by line.
//
// A file may be rotated (renamed and made anew, or cut to nothing in place),
// may appear later and may vanish; lines are bounded in length. What was read
// is not remembered over a restart: a log that is read twice would count
// twice.
//
// It is written on os and fsnotify. github.com/nxadm/tail was tried for it and
// left: it reads a line whole before it looks at its length, so that a file
// without line breaks takes all memory; it allocates a string, a Line and a
// channel send for each line; and its watcher is one goroutine for the process
// that never ends.
package tail
