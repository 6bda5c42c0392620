package tail

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watch tells when a file may have changed. It watches the directory, because
// a watch on the file stays with it when it is renamed. Where that does not
// work (a network file system, too many watches) there is only the clock.
type watch struct {
	path    string
	watcher *fsnotify.Watcher // nil: only the clock
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

// wait returns when the file may have changed or poll is over, and reports
// false when ctx ended.
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
			_ = err // events were lost: look
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
