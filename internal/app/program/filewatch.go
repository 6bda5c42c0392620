package program

import (
	"os"
	"time"
)

const (
	// fileLook is how often the file is looked at. A look is one stat; it also finds
	// what notices of the kernel do not report: a link to elsewhere whose target
	// changed, a file on a network, a directory that was replaced.
	fileLook = 250 * time.Millisecond
	// fileSettle is how long a file must not have changed before it is read: editors
	// and deployments write in several steps.
	fileSettle = time.Second
	// fileSettleTimeout is how long a file may go on changing before that is an error.
	fileSettleTimeout = 30 * time.Second
)

// watch tells when a file that changed has come to rest. It reads no clock. The
// zero value takes the first look for a change.
type watch struct {
	info  os.FileInfo // as last seen; nil: not there
	since time.Time   // it has been so since
	due   bool        // it is to be read, when it is still
	begun time.Time   // due since
}

func (w *watch) ask(now time.Time) {
	if !w.due {
		w.due, w.begun = true, now
	}
}

// settled reports whether the file is to be read now, by how it looks.
func (w *watch) settled(now time.Time, info os.FileInfo) bool {
	if w.since.IsZero() || !sameFile(w.info, info) {
		w.ask(now)
		w.info, w.since = info, now
	}
	return w.due && now.Sub(w.since) >= fileSettle
}

// stillChanging reports, once in fileSettleTimeout, that the file does not come to rest.
func (w *watch) stillChanging(now time.Time) bool {
	if !w.due || now.Sub(w.begun) < fileSettleTimeout {
		return false
	}
	w.begun = now
	return true
}

// sameFile reports whether the file was not written in between.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
