package tail

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// follower reads a file by its name, whichever file has that name. It is not safe for concurrent use.
type follower struct {
	cfg   Config
	lines *splitter
	stats *counters
	buf   []byte

	file      *os.File // nil if not open
	offset    int64
	fromStart bool      // the next file to be opened is read from its start, because one was opened or tried before
	rotated   time.Time // when a successor was first seen
	down      bool      // the failure to open the file was logged
}

// maxStep bounds the bytes that one step reads, so that its caller can check for other events.
const maxStep = 4 << 20

// readNewBytes reads the new bytes and reports whether there may be more already.
func (f *follower) readNewBytes() bool {
	if f.file == nil && !f.open() {
		return false
	}
	for total := 0; total < maxStep; {
		n, err := f.file.Read(f.buf)
		f.lines.splitPiece(f.buf[:n])
		f.offset += int64(n)
		total += n
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.recordFailure(err)
				f.close()
				return false
			}
			return f.handleEnd()
		}
	}
	return true
}

// open opens the file. The first time it skips the existing contents.
func (f *follower) open() bool {
	file, err := os.Open(f.cfg.Path)
	if err != nil {
		f.fromStart = true
		f.recordFailure(err)
		return false
	}
	f.file, f.offset, f.rotated = file, 0, time.Time{}
	if !f.fromStart {
		if f.offset, err = file.Seek(0, io.SeekEnd); err != nil {
			f.offset = 0 // a pipe has no end to seek, and no contents to skip
		}
	}
	f.fromStart = true
	if f.down {
		f.down = false
		f.cfg.Log.Info("tail: file is there", "path", f.cfg.Path)
	}
	return true
}

// handleEnd checks whether the open file still has this name, and has not become shorter. It reports whether there is
// more to read.
func (f *follower) handleEnd() bool {
	named, err := os.Stat(f.cfg.Path)
	opened, err2 := f.file.Stat()
	if err != nil || err2 != nil {
		return false // renamed away: its writers continue with it, and so do we
	}
	if os.SameFile(named, opened) {
		f.rotated = time.Time{}
		return f.restartIfTruncated(named.Size())
	}
	if f.rotated.IsZero() {
		f.rotated = time.Now()
	}
	if time.Since(f.rotated) < f.cfg.Poll {
		return false
	}
	f.lines.resetPart() // the end of that line will not come
	f.close()
	f.stats.rotations.Add(1)
	return true
}

// restartIfTruncated starts again at the beginning of a file that is shorter than the bytes read.
func (f *follower) restartIfTruncated(size int64) bool {
	if size >= f.offset {
		return false
	}
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return false
	}
	f.offset = 0
	f.lines.resetPart() // the rest of that line no longer exists
	f.stats.truncations.Add(1)
	return true
}

func (f *follower) recordFailure(err error) {
	f.stats.errors.Add(1)
	if f.down {
		return
	}
	f.down = true
	if errors.Is(err, fs.ErrNotExist) {
		f.cfg.Log.Warn("tail: file is not there; waiting for it", "path", f.cfg.Path)
		return
	}
	f.cfg.Log.Error("tail: cannot read; trying again", "path", f.cfg.Path, "err", err)
}

func (f *follower) close() {
	if f.file != nil {
		_ = f.file.Close() // it was only read
		f.file = nil
	}
}

// watch reports when a file may have changed. It watches the directory, because a watch on the file stays with it when
// it is renamed. If that does not work (a network file system, too many watches), only the clock is used.
type watch struct {
	path    string
	watcher *fsnotify.Watcher // nil to use only the clock
	events  chan fsnotify.Event
	errors  chan error
}

func newWatch(path string) *watch {
	w := &watch{path: filepath.Clean(path)}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return w
	}
	if err := watcher.Add(filepath.Dir(w.path)); err != nil {
		_ = watcher.Close()
		return w
	}
	w.watcher, w.events, w.errors = watcher, watcher.Events, watcher.Errors
	return w
}

// wait returns when the file may have changed or poll is over, and reports false when ctx ended.
func (w *watch) wait(ctx context.Context, poll time.Duration) bool {
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case err := <-w.errors:
			_ = err // events were lost, so check the file
			return true
		case e := <-w.events:
			if filepath.Clean(e.Name) == w.path {
				return true
			}
		}
	}
}

func (w *watch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close()
	}
}
