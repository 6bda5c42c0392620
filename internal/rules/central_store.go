package rules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	// MaxText bounds the rules in a central store, in bytes. The revision and the entry of the history are written
	// together, with escapes, and etcd accepts 1.5 MiB in one request.
	MaxText = 384 << 10
	// MaxStored bounds what is read of a store: a text with room for escapes.
	MaxStored = 2 << 20
	// MaxRevisions is how many changes a store keeps.
	MaxRevisions = 50
)

// storedFormat is the version of the JSON of [Stored]. A reader rejects higher ones.
const storedFormat = 1

// ErrConflict means that a store holds another version than the one that a change was based on.
var ErrConflict = errors.New("the rules in the store were changed meanwhile")

// Revision is one change of the rules in a central store.
type Revision struct {
	// Version counts the changes from 1. It only grows.
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	Author  string    `json:"author,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	// Text is the YAML, Hash its SHA-256. Lists of revisions leave the text out.
	Hash string `json:"hash"`
	Text string `json:"text,omitempty"`
}

// Stored is what a central store holds: the last revision, in one value, so that it changes as a whole.
type Stored struct {
	Format int `json:"hotparam_rules"`
	Revision
}

// With is s after a change, whose version and hash it fills in. known is the highest version that the
// caller has seen: a store that lost its last changes does not reuse their numbers. s may be nil.
func (s *Stored) With(r Revision, known int64) (*Stored, error) {
	if s != nil {
		known = max(known, s.Version)
	}
	r.Version, r.Hash = known+1, hashOf(r.Text)
	next := &Stored{storedFormat, r}
	return next, next.check()
}

// DecodeStored reads the JSON of a Stored, and rejects everything else.
func DecodeStored(data []byte) (*Stored, error) {
	if len(data) > MaxStored {
		return nil, fmt.Errorf("rules: the value in the store has more than %d bytes: it is not ours", MaxStored)
	}
	var s Stored
	if err := json.Unmarshal(data, &s); err != nil || s.Format < 1 {
		return nil, errors.New("rules: the value in the store was not written by hotparam rules push; " +
			"move it away, or name another key")
	}
	if s.Format > storedFormat {
		return nil, fmt.Errorf("rules: the value in the store has format %d and this program knows %d: "+
			"start a newer one", s.Format, storedFormat)
	}
	return &s, s.check()
}

func (s *Stored) check() error {
	switch {
	case s.Version < 1:
		return fmt.Errorf("rules: the store holds version %d; versions begin with 1", s.Version)
	case len(s.Text) > MaxText:
		return fmt.Errorf("rules: the text of version %d has %d bytes, more than %d", s.Version, len(s.Text), MaxText)
	case s.Hash != hashOf(s.Text):
		return fmt.Errorf(
			"rules: the text of version %d is not the one that was pushed: it was changed in the store; push it anew", s.Version)
	}
	return nil
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// AnyVersion as the version before a change means that the change replaces whatever is there.
const AnyVersion = -1

// ErrTooManyOverrides means that a store holds as many overrides, or as many bytes of them, as it can.
var ErrTooManyOverrides = errors.New("no more overrides fit; delete some")

// ErrOverrideChanged means that an override has another version than the one that a change of it was based on.
var ErrOverrideChanged = errors.New("the override was changed meanwhile")

// Version numbers the states of an override: each Put makes a higher one. It is 0 for nil, which is no override.
func (o *Override) Version() int64 {
	if o == nil || o.Created.IsZero() {
		return 0
	}
	return o.Created.UnixMicro()
}

// CheckVersion returns ErrOverrideChanged if a change that was based on version finds before instead.
func CheckVersion(before *Override, version int64) error {
	if version != AnyVersion && version != before.Version() {
		return ErrOverrideChanged
	}
	return nil
}

// OverrideStore keeps the live overrides and the audit of their changes. Package filestore
// has the one of a single machine, package rediscontrol the shared one. It is safe for
// concurrent use.
type OverrideStore interface {
	// List returns every override, expired ones may be among them.
	List(ctx context.Context) ([]Override, error)
	// PutIf stores o under its ID, in place of what was there, and returns the change, with o as stored in After.
	// It is ErrOverrideChanged, and nothing is stored, if version is neither AnyVersion nor the version of the
	// override that is there.
	PutIf(ctx context.Context, o Override, version int64) (Change, error)
	// DeleteIf removes an override; ErrNoOverride when there is none, ErrOverrideChanged as in PutIf.
	DeleteIf(ctx context.Context, id, author string, version int64) (Change, error)
	// Audit returns up to limit changes, newest first.
	Audit(ctx context.Context, limit int) ([]Change, error)
	// FindChanges returns the changes that a query asks for, newest first.
	FindChanges(ctx context.Context, q AuditQuery) ([]Change, error)
	// Record adds a change to the audit that changes no override: a reset or a purge. It sets the time.
	Record(ctx context.Context, c Change) error
	// Revision is that of the newest change, 0 where there never was one.
	Revision(ctx context.Context) (int64, error)
}

// AuditQuery asks for changes in the audit: up to Limit, of the override ID if it is not "", before the revision Before
// if it is not 0.
type AuditQuery struct {
	ID     string
	Before int64
	Limit  int
}

// Select returns what the query asks for of a list, newest first.
func (q AuditQuery) Select(list []Change) []Change {
	out := []Change{}
	for _, c := range list {
		if len(out) < q.Limit && (q.ID == "" || c.ID == q.ID) && (q.Before == 0 || c.Revision < q.Before) {
			out = append(out, c)
		}
	}
	return out
}

// Change is one entry of the audit of live overrides.
type Change struct {
	// Revision numbers the changes of a namespace: it grows with each. Changes
	// that were restored together share one.
	Revision int64     `json:"revision,omitempty"`
	At       time.Time `json:"at"`
	Author   string    `json:"author"`
	// Action is ChangePut or ChangeDelete. An undo is one of them too: it
	// reverses another change. Others are those of Record.
	Action string `json:"action"`
	ID     string `json:"id"` // of the override; "" for none
	// Of is what was reset or purged: a key, or "client 192.0.2.7"; "" for overrides, and for what must not be named.
	Of string `json:"of,omitempty"`
	// Before is nil if there was no override, After if it was deleted.
	Before *Override `json:"before,omitempty"`
	After  *Override `json:"after,omitempty"`
}

// The actions of a change.
const (
	ChangePut    = "put"
	ChangeDelete = "delete"
	// ChangeReset forgets what a key or client has used of its limits, ChangePurge removes cached responses, and
	// ChangePurgeHistory the history of a key.
	ChangeReset        = "reset"
	ChangePurge        = "purge"
	ChangePurgeHistory = "purge_history"
)
