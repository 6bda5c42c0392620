package historystore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// errUnknownEnd is the error of a file that may end within a block, and must be mended before it grows.
var errUnknownEnd = errors.New("a file has another length than was written")

// append adds whole blocks to a file, or nothing.
func (f *folder) append(id fileID, blocks []byte) error {
	size := f.sizes[id]
	if size == 0 {
		blocks = append(fileHeader(id.kind), blocks...)
	}
	file, err := os.OpenFile(f.pathOf(id), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != size {
		err = fmt.Errorf("%w: %s has %d bytes instead of %d", errUnknownEnd, f.pathOf(id), info.Size(), size)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	_, err = file.Write(blocks)
	if err = errors.Join(err, file.Close()); err != nil {
		if cut := os.Truncate(f.pathOf(id), size); cut != nil {
			err = errors.Join(errUnknownEnd, err, cut)
		}
		return err
	}
	f.sizes[id] = size + int64(len(blocks))
	return nil
}

// replace replaces the contents of files, each file at once, and overwrites the earlier contents.
func (f *folder) replace(contents map[fileID][]byte) error {
	r := f.newReplacement()
	defer r.removeTemps()
	for id, data := range contents {
		if err := r.add(id, data); err != nil {
			return err
		}
	}
	return r.commit()
}

// replacement replaces many files together, because one synchronization of the disk after another takes seconds.
type replacement struct {
	*folder
	sizes map[fileID]int64 // of the files that wait under temporary names
}

func (f *folder) newReplacement() *replacement { return &replacement{f, map[fileID]int64{}} }

func (r *replacement) add(id fileID, data []byte) error {
	r.sizes[id] = int64(len(data))
	return os.WriteFile(r.pathOf(id)+tempEnd, data, 0o600)
}

// removeTemps removes the temporary files that were not renamed. The next opening removes files that remain.
func (r *replacement) removeTemps() {
	for id := range r.sizes {
		_ = os.Remove(r.pathOf(id) + tempEnd)
	}
}

// commit renames the temporary files. It first links the earlier contents under second names, by which it then
// overwrites them.
func (r *replacement) commit() error {
	for id := range r.sizes {
		if err := syncFile(r.pathOf(id) + tempEnd); err != nil {
			return err
		}
	}
	var old []string
	for id, size := range r.sizes {
		path := r.pathOf(id)
		if _, exists := r.folder.sizes[id]; exists {
			second := path + ".old" + tempEnd
			if err := errors.Join(ignoreMissing(os.Remove(second)), os.Link(path, second)); err != nil {
				return err
			}
			old = append(old, second)
		}
		if err := os.Rename(path+tempEnd, path); err != nil {
			return err
		}
		r.folder.sizes[id] = size
	}
	clear(r.sizes)
	return errors.Join(syncFile(r.path), wipeFiles(old...))
}

// remove deletes a file, and overwrites its contents before.
func (f *folder) remove(id fileID) error {
	if _, exists := f.sizes[id]; !exists {
		return nil
	}
	if err := ignoreMissing(wipeFiles(f.pathOf(id))); err != nil {
		return err
	}
	delete(f.sizes, id)
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// wipeFiles overwrites files with zeros, and deletes them.
func wipeFiles(paths ...string) error {
	for _, path := range paths {
		if err := zeroFile(path); err != nil {
			return err
		}
	}
	for _, path := range paths { // the first waits for the disk, the others wait little
		if err := syncFile(path); err != nil {
			return err
		}
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

func zeroFile(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	zeros := make([]byte, 64<<10)
	for at := int64(0); err == nil && at < info.Size(); at += int64(len(zeros)) {
		_, err = file.WriteAt(zeros[:min(int64(len(zeros)), info.Size()-at)], at)
	}
	return errors.Join(err, file.Close())
}

// syncFile makes a file, or the names in a folder, survive a loss of power.
func syncFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	flag := os.O_RDWR
	if info.IsDir() {
		if flag = os.O_RDONLY; runtime.GOOS == "windows" { // it has no such call for folders
			return nil
		}
	}
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
