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
	// MaxStored bounds the bytes that are read of a store: a text with room for escapes.
	MaxStored = 2 << 20
	// MaxRevisions is the number of changes that a store keeps.
	MaxRevisions = 50
)

// storedFormat is the version of the JSON of [Stored]. A reader rejects higher versions.
const storedFormat = 1

// ErrConflict means that a store holds another version than the version on which a change was based.
var ErrConflict = errors.New("the rules in the store were changed meanwhile")

// Revision is one change of the rules in a central store.
type Revision struct {
	// Version counts the changes from 1. It only grows.
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	Author  string    `json:"author,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	// Hash is the SHA-256 of Text.
	Hash string `json:"hash"`
	// Text is the YAML. Lists of revisions leave it out.
	Text string `json:"text,omitempty"`
}

// Stored is the content of a central store: the last revision, in one value, so that it changes as a whole.
type Stored struct {
	Format int `json:"hotparam_rules"`
	Revision
}

// With returns the content after change r, whose version and hash it sets. known is the highest version that the caller
// has seen, so that a store that lost its last changes does not reuse their numbers. s may be nil.
func (s *Stored) With(r Revision, known int64) (*Stored, error) {
	if s != nil {
		known = max(known, s.Version)
	}
	r.Version, r.Hash = known+1, hashOf(r.Text)
	next := &Stored{storedFormat, r}
	return next, next.check()
}

// DecodeStored reads the JSON of a Stored, and rejects all other content.
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

// AnyVersion as the version before a change means that the change replaces any version.
const AnyVersion = -1

// ErrTooManyOverrides means that a store holds as many overrides, or as many bytes of them, as it can.
var ErrTooManyOverrides = errors.New("no more overrides fit; delete some")

// ErrOverrideChanged means that an override has another version than the version on which its change was based.
var ErrOverrideChanged = errors.New("the override was changed meanwhile")

// Version returns the number of the override's state: each Put makes a higher number. It returns 0 for nil, which means
// no override.
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

// OverrideStore keeps the live overrides and the audit of their changes. Package filestore implements it for a single
// machine, and package rediscontrol implements it for several. It is safe for concurrent use.
type OverrideStore interface {
	// Live returns every override. Expired overrides may be among them. It has all changes that were acknowledged
	// before the call. Sets of successive calls share their parts, so that a caller finds the changes.
	Live(ctx context.Context) (LiveOverrides, error)
	// PutIf stores o under its ID, in place of the override that was there, and returns the change, with o as stored in
	// After. It returns ErrOverrideChanged, and stores nothing, if version is neither AnyVersion nor the version of the
	// override that is there.
	PutIf(ctx context.Context, o Override, version int64) (Change, error)
	// DeleteIf removes an override. It returns ErrNoOverride if there is no such override, and ErrOverrideChanged as
	// PutIf.
	DeleteIf(ctx context.Context, id, author string, version int64) (Change, error)
	// Audit returns up to limit changes, the newest first.
	Audit(ctx context.Context, limit int) ([]Change, error)
	// FindChanges returns the changes that a query selects, the newest first.
	FindChanges(ctx context.Context, q AuditQuery) ([]Change, error)
	// Record adds to the audit a change that changes no override: a reset or a purge. It sets the time.
	Record(ctx context.Context, c Change) error
	// Revision returns the revision of the newest change, or 0 if there was no change.
	Revision(ctx context.Context) (int64, error)
}

// AuditQuery selects changes in the audit: up to Limit, of the override ID if it is not "", before the revision Before
// if it is not 0.
type AuditQuery struct {
	ID     string
	Before int64
	Limit  int
}

// Select returns the changes in list that the query selects, in the order of list, which is the newest first.
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
	// Revision numbers the changes of a namespace: it grows with each change. Changes that were restored together share
	// a revision.
	Revision int64     `json:"revision,omitempty"`
	At       time.Time `json:"at"`
	Author   string    `json:"author"`
	// Action is ChangePut or ChangeDelete, also for an undo, which reverses another change. Other actions come from
	// Record.
	Action string `json:"action"`
	ID     string `json:"id"` // of the override, or "" for other changes
	// Of names the target of a reset or purge: a key, or "client 192.0.2.7". It is "" for overrides, and for targets
	// that must not be named.
	Of string `json:"of,omitempty"`
	// Before is nil if there was no override, and After is nil if it was deleted.
	Before *Override `json:"before,omitempty"`
	After  *Override `json:"after,omitempty"`
}

// The actions of a change.
const (
	ChangePut    = "put"
	ChangeDelete = "delete"
	// ChangeReset forgets the use of limits by a key or client, ChangePurge removes cached responses, and
	// ChangePurgeHistory removes the history of a key.
	ChangeReset        = "reset"
	ChangePurge        = "purge"
	ChangePurgeHistory = "purge_history"
)
