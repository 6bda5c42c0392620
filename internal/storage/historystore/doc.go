// Package historystore keeps the history of a program (package history) in a SQLite file: minutes,
// spans and events, for some days, within a bound of bytes.
//
// It is never in the way: what cannot be written is dropped and counted, and a file that cannot be
// opened is tried again. A damaged file is set aside under another name and a new one begun.
package historystore
