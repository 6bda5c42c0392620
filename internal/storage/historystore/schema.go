package historystore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const fileName = "history.sqlite"

// version is that of the schema, SQLite's user_version. Files of another one are set aside.
const version = 2

// Times are unix seconds, of events and spans unix milliseconds. until is 0 while a span lasts.
const schema = minutesSchema + hoursSchema

const minutesSchema = `
CREATE TABLE total (minute INTEGER PRIMARY KEY, allowed REAL NOT NULL, denied REAL NOT NULL, denied_by TEXT NOT NULL);
CREATE TABLE minute (
	minute INTEGER NOT NULL, key TEXT NOT NULL, rule TEXT NOT NULL, state TEXT NOT NULL,
	rate REAL NOT NULL, peak REAL NOT NULL, allowed REAL NOT NULL, denied REAL NOT NULL, clients INTEGER NOT NULL,
	PRIMARY KEY (minute, key)) WITHOUT ROWID;
CREATE INDEX minute_key ON minute (key, minute);
CREATE TABLE span (
	key TEXT NOT NULL, state TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL, rule TEXT NOT NULL,
	peak REAL NOT NULL, PRIMARY KEY (key, state, since)) WITHOUT ROWID;
CREATE INDEX span_since ON span (since);
CREATE INDEX span_open ON span (until) WHERE until = 0;
CREATE TABLE event (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
	detail TEXT NOT NULL);
CREATE INDEX event_at ON event (at);
CREATE INDEX event_key ON event (key, at);
`

// hoursSchema sums minutes up, so that a week can be seen at once. Version 1 had none.
const hoursSchema = `
CREATE TABLE hour (
	hour INTEGER NOT NULL, key TEXT NOT NULL, rule TEXT NOT NULL, state TEXT NOT NULL,
	peak REAL NOT NULL, allowed REAL NOT NULL, denied REAL NOT NULL, PRIMARY KEY (hour, key)) WITHOUT ROWID;
CREATE INDEX hour_key ON hour (key, hour);
`

// fillHours makes the hours of a file that has only minutes.
const fillHours = `
INSERT INTO hour SELECT minute / 3600 * 3600, key, max(rule),
	CASE WHEN max(state = 'hot') THEN 'hot' WHEN max(state = 'loop') THEN 'loop' ELSE 'cold' END,
	max(peak), sum(allowed), sum(denied) FROM minute GROUP BY 1, 2;
`

const pageSize = 4096

// open opens the file of a directory, which is there, and makes it where there is none. A damaged file is renamed;
// setAside is its new name then.
func open(ctx context.Context, dir string, maxBytes int64) (db *sql.DB, setAside string, err error) {
	path := filepath.Join(dir, fileName)
	db, err = openFile(ctx, path, maxBytes)
	if err == nil || !damaged(err) {
		return db, "", err
	}
	setAside = path + ".damaged"
	for _, end := range []string{"-wal", "-shm", ""} { // the file itself last: it is what is looked for
		if renamed := os.Rename(path+end, setAside+end); renamed != nil && !errors.Is(renamed, os.ErrNotExist) {
			return nil, "", fmt.Errorf("historystore: %w; and it cannot be set aside: %w", err, renamed)
		}
	}
	db, again := openFile(ctx, path, maxBytes)
	return db, setAside, again
}

var errVersion = errors.New("another version of the schema")

func openFile(ctx context.Context, path string, maxBytes int64) (*sql.DB, error) {
	options := url.Values{"_pragma": {
		"busy_timeout(2000)", "journal_mode(WAL)", "synchronous(NORMAL)", "page_size(" + strconv.Itoa(pageSize) + ")",
		"max_page_count(" + strconv.FormatInt(max(maxBytes/pageSize, 64), 10) + ")",
		"journal_size_limit(16777216)", "temp_store(MEMORY)",
		"secure_delete(ON)", // from the start on, or a page that was split keeps copies of what is purged later
	}, "_txlock": {"immediate"}}
	// SQLite gives the files beside it the same rights.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = errors.Join(f.Chmod(0o600), f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("historystore: %w", err)
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+options.Encode())
	if err != nil {
		return nil, fmt.Errorf("historystore: %w", err)
	}
	db.SetMaxOpenConns(4) // one writes, the others read
	if err := prepare(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("historystore: %s: %w", path, err), db.Close())
	}
	return db, nil
}

func prepare(ctx context.Context, db *sql.DB) error {
	var sound string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&sound); err != nil {
		return err
	}
	if sound != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, sound)
	}
	var have int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return err
	}
	switch have {
	case version:
		return nil
	case 1:
		return makeTables(ctx, db, hoursSchema+fillHours)
	}
	var tables int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return err
	}
	if have != 0 || tables != 0 {
		return fmt.Errorf("%w: %d, want %d", errVersion, have, version)
	}
	return makeTables(ctx, db, schema)
}

func makeTables(ctx context.Context, db *sql.DB, tables string) error {
	return inTransaction(ctx, db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, tables+"PRAGMA user_version = "+strconv.Itoa(version))
		return err
	})
}

var errDamaged = errors.New("the file is damaged")

// damaged reports whether an error says that the file is of no use.
func damaged(err error) bool {
	if errors.Is(err, errDamaged) || errors.Is(err, errVersion) {
		return true
	}
	code, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch code.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	}
	return false
}

// remedy says what a person can do about an error; "" where the error itself says it.
func remedy(err error, dir string) string {
	full, denied := errors.Is(err, syscall.ENOSPC), errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
	if code, ok := errors.AsType[*sqlite.Error](err); ok {
		switch code.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			full = true
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
			denied = true
		case sqlite3.SQLITE_IOERR:
			return "see whether the disk of " + dir + " is full or broken"
		}
	}
	switch {
	case full:
		return "make room on the disk of " + dir
	case denied:
		return "let this program write in " + dir + ", or give it another state.dir"
	}
	return ""
}
