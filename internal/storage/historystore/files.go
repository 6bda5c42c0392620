package historystore

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	folderName = "history"
	hourFormat = "2006-01-02T15"
	tempEnd    = ".tmp"
	damagedEnd = ".damaged"
)

// fileID names a file: 2026-03-14T12.minutes.
type fileID struct {
	hour int64 // unix seconds of its beginning
	kind string
}

func (id fileID) fileName() string {
	return time.Unix(id.hour, 0).UTC().Format(hourFormat) + "." + id.kind
}

// parseName returns the id of the file with a name. A damaged file that was set aside belongs to its hour.
func parseName(name string) (id fileID, ok bool) {
	at, kind, _ := strings.Cut(name, ".")
	hour, err := time.Parse(hourFormat, at)
	intact := strings.TrimSuffix(kind, damagedEnd)
	known := intact == minutesKind || intact == hoursKind || intact == eventsKind
	return fileID{hour.Unix(), kind}, err == nil && known
}

// folder holds the sizes of the files of a history. Files grow by whole blocks, or are replaced as a whole.
type folder struct {
	path  string
	sizes map[fileID]int64
}

// openFolder finds the files of a folder, and makes the folder if it does not exist.
func openFolder(path string) (*folder, error) {
	f := &folder{path: path, sizes: map[fileID]int64{}}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), tempEnd) { // of a replacement that a crash ended
			if err := os.Remove(filepath.Join(path, e.Name())); err != nil {
				return nil, err
			}
		}
		if id, ok := parseName(e.Name()); ok && e.Type().IsRegular() {
			info, err := e.Info()
			if err != nil {
				return nil, err
			}
			f.sizes[id] = info.Size()
		}
	}
	return f, nil
}

func (f *folder) pathOf(id fileID) string { return filepath.Join(f.path, id.fileName()) }

func (f *folder) totalBytes() (sum int64) {
	for _, n := range f.sizes {
		sum += n
	}
	return sum
}

// hoursWith returns the hours that have a file of any of the kinds, oldest first.
func (f *folder) hoursWith(kinds ...string) []int64 {
	set := map[int64]bool{}
	for id := range f.sizes {
		if slices.Contains(kinds, id.kind) {
			set[id.hour] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// hoursBetween returns the hours of a kind that have times at or after from and before to.
func (f *folder) hoursBetween(kind string, from, to int64) []int64 {
	return slices.DeleteFunc(f.hoursWith(kind), func(hour int64) bool { return hour+3600 <= from || hour >= to })
}

// mendFiles reads all files. It cuts off the end of a file that was not written whole. It renames a damaged file, and
// writes the blocks before the damage again; setAside is the number of such files.
func (f *folder) mendFiles(log *slog.Logger) (setAside uint64, err error) {
	for id := range maps.Clone(f.sizes) {
		if strings.HasSuffix(id.kind, damagedEnd) {
			continue
		}
		data, err := os.ReadFile(f.pathOf(id))
		if err != nil {
			return setAside, err
		}
		good, fault := wholeBlocks(id.kind, data)
		switch {
		case errors.Is(fault, errTorn):
			log.Warn("historystore: a file was not written to its end; the last block is cut off", "file", f.pathOf(id),
				"bytes", len(data)-good)
			err = f.truncate(id, int64(good))
		case fault != nil:
			setAside++
			log.Warn("historystore: a file of the history is damaged or of another version; its undamaged part is kept", "bytes",
				good, "set_aside", f.pathOf(id)+damagedEnd)
			err = f.setAside(id, data[:good])
		}
		if err != nil {
			return setAside, err
		}
	}
	return setAside, nil
}

// wholeBlocks returns the number of bytes up to the first fault of a file, and the fault.
func wholeBlocks(kind string, data []byte) (good int, fault error) {
	payloads, good, fault := splitBlocks(kind, data)
	after := len(fileHeader(kind))
	for _, p := range payloads {
		var err error
		if kind == eventsKind {
			_, err = decodeRecord(p)
		} else {
			_, err = openBlock(p).read(func(*row) {})
		}
		if err != nil {
			return after, err
		}
		after += blockHeader + len(p)
	}
	return good, fault
}

func (f *folder) truncate(id fileID, size int64) error {
	if size == 0 {
		return f.remove(id)
	}
	if err := os.Truncate(f.pathOf(id), size); err != nil {
		return err
	}
	f.sizes[id] = size
	return nil
}

func (f *folder) setAside(id fileID, whole []byte) error {
	aside := fileID{id.hour, id.kind + damagedEnd}
	if err := os.Rename(f.pathOf(id), f.pathOf(aside)); err != nil {
		return fmt.Errorf("%s is damaged, and cannot be set aside: %w", id.fileName(), err)
	}
	f.sizes[aside] = f.sizes[id]
	delete(f.sizes, id)
	if len(whole) == 0 {
		return nil
	}
	return f.replace(map[fileID][]byte{id: whole})
}

// read returns the payloads of a file, or no payloads if the file does not exist.
func (f *folder) read(id fileID) ([][]byte, error) {
	if _, ok := f.sizes[id]; !ok {
		return nil, nil
	}
	data, err := os.ReadFile(f.pathOf(id))
	if err != nil {
		return nil, err
	}
	payloads, _, err := splitBlocks(id.kind, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.pathOf(id), err)
	}
	return payloads, nil
}
