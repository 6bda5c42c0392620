// Package history is what an operator may ask about the past: by the minute, which keys were the
// heaviest and what became of their requests, and what happened. [Recorder] folds seconds into
// minutes; package historystore keeps them.
//
// It is pure: time is an argument.
package history
