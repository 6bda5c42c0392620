// Package filestore keeps the live overrides of a single machine in a state
// directory, so that they outlive the process. It is the edge to the disk; where
// several machines share overrides, package rediscontrol is used instead.
//
//	DIR/overrides.json   {"version": 1, "last": …, "overrides": […]}, replaced as a whole
//	DIR/audit.jsonl      one change a line, oldest first, the last 1000
//	DIR/lock             held while a process has the directory open
//
// What enters are overrides and who set them, what leaves is the list, the
// audit, and a call to each subscriber with a change.
//
// A change is written to the audit, then into overrides.json by a temporary
// file, fsync and rename, and only then answered. A crash in between leaves an
// audit line that no answer was given for: Open knows it by "last", which is the
// change that overrides.json holds, and drops it. A file that cannot be read is
// an error that says how to fix it; it is never taken for an empty one.
//
// Beside them it keeps the last good copy of rules from a central store; see
// [RulesCopy].
package filestore
