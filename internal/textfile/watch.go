package textfile

import (
	"os"
	"time"
)

const (
	// Look is the interval at which a watched file is checked. A check is one stat; it also finds changes that notices
	// of the kernel do not report: a link to elsewhere whose target changed, a file on a network, a directory that was
	// replaced.
	Look = 500 * time.Millisecond
	// Settle is the time for which a file must not have changed before it is read, because editors and deployments
	// write in several steps.
	Settle = time.Second
	// SettleTimeout is the time for which a file may keep changing before that is an error.
	SettleTimeout = 30 * time.Second
)

// Watch reports when a file that changed has come to rest. It reads no clock. The zero value regards the first check as
// a change.
type Watch struct {
	info  os.FileInfo // as last seen; nil if there was no file
	since time.Time   // time since which it has been so
	due   bool        // it will be read when it is at rest
	begun time.Time   // time since which it is due
}

// Ask makes the file due even if it did not change.
func (w *Watch) Ask(now time.Time) {
	if !w.due {
		w.due, w.begun = true, now
	}
}

// Settled reports whether to read the file now, according to info.
func (w *Watch) Settled(now time.Time, info os.FileInfo) bool {
	if w.since.IsZero() || !Same(w.info, info) {
		w.Ask(now)
		w.info, w.since = info, now
	}
	return w.due && now.Sub(w.since) >= Settle
}

// Done records that the file was read.
func (w *Watch) Done() { w.due = false }

// StillChanging reports, once in SettleTimeout, that the file does not come to rest.
func (w *Watch) StillChanging(now time.Time) bool {
	if !w.due || now.Sub(w.begun) < SettleTimeout {
		return false
	}
	w.begun = now
	return true
}

// Same reports whether the file was not written between a and b.
func Same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
