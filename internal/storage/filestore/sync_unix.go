//go:build unix

package filestore

import (
	"errors"
	"os"
)

// sync makes the names in the directory durable.
func (f dirDisk) sync() error {
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
