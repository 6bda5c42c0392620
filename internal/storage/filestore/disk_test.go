package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

var errPower = errors.New("power is gone")

// ram is a disk that can fail at one of its writes, of which it leaves a part;
// after a crash it fails at all that follow.
type ram struct {
	files map[string][]byte

	writes  int  // so far
	failAt  int  // number of the write that fails, from 1, or 0
	crash   bool // the failing write is the last one
	torn    int  // how much of it is there, in thousandths
	renamed bool // a replacement fails after its rename
	crashed bool
}

func newRAM() *ram { return &ram{files: map[string][]byte{}} }

func (r *ram) pathOf(name string) string { return "DIR/" + name }

func (r *ram) read(name string) ([]byte, error) {
	data, ok := r.files[name]
	if !ok {
		return nil, fmt.Errorf("filestore: %w", fs.ErrNotExist)
	}
	return slices.Clone(data), nil
}

// write reports how much of data is written.
func (r *ram) write(data []byte) (int, error) {
	r.writes++
	switch {
	case r.crashed:
		return 0, errPower
	case r.writes != r.failAt:
		return len(data), nil
	}
	r.crashed = r.crash
	return len(data) * r.torn / 1000, errors.New("no space left on device")
}

func (r *ram) replace(name string, data []byte) error {
	n, err := r.write(data)
	if err != nil {
		r.files[name+tempSuffix] = slices.Clone(data[:n])
		if r.renamed {
			r.files[name] = slices.Clone(data)
		}
		return err
	}
	r.files[name] = slices.Clone(data)
	return nil
}

func (r *ram) add(name string, data []byte) error {
	n, err := r.write(data)
	r.files[name] = slices.Concat(r.files[name], data[:n])
	return err
}

// truncate is one of the writes that can fail. It is done entirely or not at all.
func (r *ram) truncate(name string, size int) error {
	if _, err := r.write(nil); err != nil {
		return err
	}
	if size == 0 {
		delete(r.files, name)
	} else if size < len(r.files[name]) {
		r.files[name] = r.files[name][:size]
	}
	return nil
}

func (r *ram) removeTempFiles() error {
	maps.DeleteFunc(r.files, func(name string, _ []byte) bool { return strings.HasSuffix(name, tempSuffix) })
	return nil
}

// reboot is the same disk for the next process.
func (r *ram) reboot() *ram { return &ram{files: maps.Clone(r.files)} }
