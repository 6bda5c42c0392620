package filestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const summariesFile = "summaries.json"

// days is summaries.json.
type days struct {
	Version   int               `json:"version"`
	Summaries []hottype.Summary `json:"summaries"`
}

// Summaries keeps the days of one process in the state directory that this
// process holds by OpenOverrides. Any goroutine may use it. A file that cannot
// be read is an error at each call and is left as it is.
type Summaries struct {
	disk disk
	now  func() time.Time
	mu   sync.Mutex // one reading and writing at a time
}

// NewSummaries gives the summaries of an open state directory.
func NewSummaries(dir string) *Summaries { return &Summaries{disk: folder(dir), now: time.Now} }

// PutSummary keeps a day, in place of what its source said of it before, and
// forgets days that are too old. It returns after the last write to the disk.
func (s *Summaries) PutSummary(_ context.Context, day hottype.Summary) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.read()
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(d hottype.Summary) bool {
		return d.Expired(s.now()) || d.Day == day.Day && d.Source == day.Source
	})
	data, err := json.Marshal(days{Version: formatVersion, Summaries: append(list, day)})
	if err != nil {
		return fmt.Errorf("statedir: %s: %w", summariesFile, err)
	}
	return s.disk.replace(summariesFile, append(data, '\n'))
}

// Summaries are the days that are kept, newest first.
func (s *Summaries) Summaries(context.Context) ([]hottype.Summary, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.read()
	slices.SortFunc(list, func(a, b hottype.Summary) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day), cmp.Compare(a.Source, b.Source))
	})
	return list, err
}

func (s *Summaries) read() ([]hottype.Summary, error) {
	data, err := s.disk.read(summariesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var d days
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("statedir: %s%s cannot be used: %w; move it away to begin anew", s.disk.path(summariesFile), lineOf(data, err), err)
	}
	if d.Version > formatVersion {
		return nil, fmt.Errorf("statedir: %s has version %d and this program knows %d: start the newer program that wrote it",
			s.disk.path(summariesFile), d.Version, formatVersion)
	}
	return d.Summaries, nil
}
