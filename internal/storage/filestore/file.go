// Package filestore keeps the live overrides of a single machine in a state directory, so that they outlive the
// process. It is the only package that writes them to a disk; if several machines share overrides, package rediscontrol
// is used instead.
//
//	DIR/overrides.json      {"version": 1, "last": …, "overrides": […]}, replaced as a whole
//	DIR/overrides.journal   the changes since, one a line; see journaledFile
//	DIR/audit.jsonl         one change a line, oldest first: 30 days, as far as they fit into 64 MiB
//	DIR/pass-secrets.json   the secrets of visitor passes; see PassSecrets
//	DIR/base-latency.json   the latencies of upstreams without a rush; see Latencies
//	DIR/lock                held while a process has the directory open
//
// Callers put and delete overrides with the name of their author. The package returns the list and the audit, and calls
// each subscriber with every change.
//
// A change is written to the audit, then to the journal, and only then answered. A crash in between leaves an audit
// line that was never answered: OpenOverrides recognizes it by the last change that overrides.json and its journal
// hold, and drops it. The journal is merged into overrides.json, by a temporary file, fsync and rename, when it has
// as many bytes, by Trim and by Close. So a program that does not know the journal reads everything after an orderly
// stop, and the text of a removed override is gone soon. If overrides.json was edited or replaced, it holds and a
// journal of the file before does not: Missing reports it.
//
// A file that cannot be read is an error that states how to fix it, and never counts as empty. A change that would
// make a file larger than the size up to which files are read is rejected.
//
// The directory also holds the last good copy of rules from a central store; see [RulesCopy].
package filestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/hotparam/pipeline/internal/rules"
)

const (
	overridesFile    = "overrides.json"
	overridesJournal = "overrides.journal"
	auditFile        = "audit.jsonl"
	tempSuffix       = ".tmp"
	formatVersion    = 1        // of overrides.json; a reader rejects higher ones
	maxFile          = 64 << 20 // bytes of a file that are read, and written
	envelopeBytes    = 128      // at most, of an envelope without its last change and its overrides
)

type envelope struct {
	Version   int              `json:"version"`
	Last      *rules.Change    `json:"last,omitempty"`          // the change that this file holds
	Changes   int              `json:"audit_changes,omitempty"` // lines that audit.jsonl had then
	Overrides []rules.Override `json:"overrides"`
}

// encode returns the text of overrides.json, or rules.ErrTooManyOverrides if the text would be too long to be read
// again.
func (o *Overrides) encode(live rules.LiveOverrides, last *rules.Change, changes int) ([]byte, error) {
	list := rules.SortedOverrides(live) // [] and not null, which is damage
	data, err := json.MarshalIndent(envelope{formatVersion, last, changes, list}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("filestore: %s: %w", overridesFile, err)
	}
	if len(data) >= o.max {
		return nil, tooLong(len(data), o.max)
	}
	return append(data, '\n'), nil
}

func tooLong(n, most int) error {
	return fmt.Errorf("filestore: %s would have %d bytes, more than %d: %w", overridesFile, n, most,
		rules.ErrTooManyOverrides)
}

// overrideBytes returns the bytes that an override takes in overrides.json, with indentation, comma and line feed.
func overrideBytes(o *rules.Override) int { return len("    ,\n") + indentedBytes(o, "    ") }

// bytesWith returns an upper bound of the bytes of overrides.json with overrides that take n bytes and a last change.
func bytesWith(n int, last *rules.Change) int {
	return envelopeBytes + n + len(`  "last": ,\n`) + indentedBytes(last, "  ")
}

func indentedBytes(v any, prefix string) int {
	data, _ := json.MarshalIndent(v, prefix, "  ") // it was marshaled or unmarshaled before
	return len(data)
}

// readEnvelope reads overrides.json and the changes in its journal. Its version is 0 if overrides.json does not exist.
func readEnvelope(f *journaledFile) (envelope, journal, error) {
	data, j, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return envelope{}, j, nil
	}
	if bad := (*damagedLine)(nil); errors.As(err, &bad) {
		return envelope{}, j, fmt.Errorf("%w; move it away to start with the overrides of %s (%s lists the changes since)",
			err, f.name, auditFile)
	}
	if err != nil {
		return envelope{}, j, err
	}
	var env envelope
	if err := json.Unmarshal(data, &env); err != nil {
		return envelope{}, j, damagedError(f.disk, lineOf(data, err), err)
	}
	return env, j, env.check(f.disk)
}

func (env envelope) check(d disk) error {
	if env.Version > formatVersion {
		return fmt.Errorf("filestore: %s has version %d and this program knows %d: start the newer program that wrote it",
			d.pathOf(overridesFile), env.Version, formatVersion)
	}
	if env.Version < 1 || env.Overrides == nil {
		return damagedError(d, "", errors.New(`"version" or "overrides" is missing`))
	}
	seen := map[string]bool{}
	for i, o := range env.Overrides {
		where := fmt.Sprintf(" override %d (%q)", i+1, o.ID)
		if o.ID == "" || seen[o.ID] {
			return damagedError(d, where, errors.New("its id is missing or is set twice"))
		}
		seen[o.ID] = true
		if err := o.Validate(); err != nil {
			return damagedError(d, where, err)
		}
	}
	return nil
}

func damagedError(d disk, where string, err error) error {
	return fmt.Errorf("filestore: %s%s cannot be used: %w; fix it, or move it away to start without overrides "+
		"(%s lists what they were)", d.pathOf(overridesFile), where, err, auditFile)
}

func lineOf(data []byte, err error) string {
	offset := int64(-1)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = e.Offset
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = e.Offset
	}
	if offset < 0 || offset > int64(len(data)) {
		return ""
	}
	return fmt.Sprintf(" line %d", 1+bytes.Count(data[:offset], []byte("\n")))
}

// disk is the part of a directory that the store needs. Errors name the file.
type disk interface {
	pathOf(name string) string
	// read returns a whole file, or fs.ErrNotExist.
	read(name string) ([]byte, error)
	// replace replaces a file by data: entirely or, after a crash, not at all.
	replace(name string, data []byte) error
	// add appends data to a file.
	add(name string, data []byte) error
	// truncate makes a file as short as size, or removes it if size is 0. It does not wait for the disk.
	truncate(name string, size int) error
	// removeTempFiles removes the temporary files that a crash left.
	removeTempFiles() error
}

// noDisk stores nothing.
type noDisk struct{}

func (noDisk) pathOf(name string) string    { return name }
func (noDisk) read(string) ([]byte, error)  { return nil, fs.ErrNotExist }
func (noDisk) replace(string, []byte) error { return nil }
func (noDisk) add(string, []byte) error     { return nil }
func (noDisk) truncate(string, int) error   { return nil }
func (noDisk) removeTempFiles() error       { return nil }

type dirDisk string

func (f dirDisk) pathOf(name string) string { return filepath.Join(string(f), name) }

func (f dirDisk) read(name string) ([]byte, error) {
	file, err := os.Open(f.pathOf(name))
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("filestore: %s is over %d bytes: it was not written by this program; move it away",
			f.pathOf(name), maxFile)
	}
	return data, nil
}

func (f dirDisk) replace(name string, data []byte) error {
	return f.replaceBy(name+tempSuffix, name, data)
}

// replaceBy replaces a file through the temporary file tempName.
func (f dirDisk) replaceBy(tempName, name string, data []byte) error {
	temp := f.pathOf(tempName)
	err := writeSynced(temp, os.O_TRUNC, data)
	if err == nil {
		err = os.Rename(temp, f.pathOf(name))
	}
	if err == nil {
		err = f.sync()
	}
	if err != nil {
		return fmt.Errorf("filestore: %s was not written: %w", f.pathOf(name), err)
	}
	return nil
}

// sync makes the names in the directory durable. Windows writes them with the rename.
func (f dirDisk) sync() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (f dirDisk) add(name string, data []byte) error {
	_, found := os.Stat(f.pathOf(name))
	err := writeSynced(f.pathOf(name), os.O_APPEND, data)
	if err == nil && errors.Is(found, fs.ErrNotExist) {
		err = f.sync()
	}
	if err != nil {
		return fmt.Errorf("filestore: %s was not written: %w", f.pathOf(name), err)
	}
	return nil
}

func (f dirDisk) truncate(name string, size int) error {
	cut := os.Remove
	if size > 0 {
		cut = func(path string) error { return os.Truncate(path, int64(size)) }
	}
	if err := cut(f.pathOf(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("filestore: %w", err)
	}
	return nil
}

func writeSynced(path string, flag int, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func (f dirDisk) removeTempFiles() error {
	for _, name := range []string{overridesFile, auditFile, passSecretsFile} {
		if err := os.Remove(f.pathOf(name + tempSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("filestore: %w", err)
		}
	}
	return nil
}
