package textfile

import (
	"os"
	"time"
)

const (
	// Look is how often a watched file is looked at. A look is one stat; it also finds
	// what notices of the kernel do not report: a link to elsewhere whose target
	// changed, a file on a network, a directory that was replaced.
	Look = 500 * time.Millisecond
	// Settle is how long a file must not have changed before it is read: editors
	// and deployments write in several steps.
	Settle = time.Second
	// SettleTimeout is how long a file may go on changing before that is an error.
	SettleTimeout = 30 * time.Second
)

// Watch reports when a file that changed has come to rest. It reads no clock. The
// zero value takes the first look for a change.
type Watch struct {
	info  os.FileInfo // as last seen; nil: not there
	since time.Time   // it has been so since
	due   bool        // it is to be read, when it is still
	begun time.Time   // due since
}

// Ask has the file read even if it did not change.
func (w *Watch) Ask(now time.Time) {
	if !w.due {
		w.due, w.begun = true, now
	}
}

// Settled reports whether the file is to be read now, by how it looks.
func (w *Watch) Settled(now time.Time, info os.FileInfo) bool {
	if w.since.IsZero() || !Same(w.info, info) {
		w.Ask(now)
		w.info, w.since = info, now
	}
	return w.due && now.Sub(w.since) >= Settle
}

// Done says that the file was read.
func (w *Watch) Done() { w.due = false }

// StillChanging reports, once in SettleTimeout, that the file does not come to rest.
func (w *Watch) StillChanging(now time.Time) bool {
	if !w.due || now.Sub(w.begun) < SettleTimeout {
		return false
	}
	w.begun = now
	return true
}

// Same reports whether the file was not written in between.
func Same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
