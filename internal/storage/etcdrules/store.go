// Package etcdrules keeps a central store of rules in etcd. One key holds the rules in force, and the keys
// KEY/history/VERSION the last changes. The values are JSON, which package rules writes and reads.
//
// A follower watches the key and, in case a watch is lost, checks its revision once a second. A check without news
// reads no value. A watch begins with the present revision and is only a hint to check, so compactions of etcd in the
// meantime do not matter.
package etcdrules

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/wait"
)

const (
	// pollEvery is how long a lost watch can stay unnoticed.
	pollEvery = time.Second
	// watchAgain is the pause after a watch that ended.
	watchAgain = time.Second
	// maxMessage bounds a response of etcd, which may be the history with all its texts.
	maxMessage = rules.MaxRevisions*rules.MaxText*2 + 1<<20
)

type Config struct {
	Endpoints          []string // host:port, or http:// and https:// before it
	Key                string
	Username, Password string
	TLS                *tls.Config   // nil for no TLS, unless an endpoint begins with https://
	Timeout            time.Duration // of one call
	Log                *slog.Logger
}

// Store is a central store of rules. Any number of goroutines may share it. Close it after the last use.
type Store struct {
	cfg    Config
	client *client
}

// Open returns a store. It does not need the server.
func Open(cfg Config) (*Store, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New("etcdrules: where is etcd? Set --etcd.addr, such as 127.0.0.1:2379")
	}
	if cfg.Key == "" || strings.HasSuffix(cfg.Key, "/") {
		return nil, fmt.Errorf("etcdrules: key %q must be a name such as /hotparam/rules", cfg.Key)
	}
	client, err := dial(&cfg)
	if err != nil {
		return nil, fmt.Errorf("etcdrules: %w", err)
	}
	return &Store{cfg, client}, nil
}

func (s *Store) Close() error { return s.client.conn.Close() }

// Read returns the content of the store, or nil if it is empty.
func (s *Store) Read(ctx context.Context) (*rules.Stored, error) {
	stored, _, err := s.read(ctx)
	return stored, err
}

// read also returns etcd's revision of the key, or 0 if the key is absent.
func (s *Store) read(ctx context.Context) (*rules.Stored, int64, error) {
	kv, err := s.findValue(ctx, false)
	if err != nil || kv == nil {
		return nil, 0, err
	}
	stored, err := rules.DecodeStored(kv.value)
	return stored, kv.modRevision, err
}

// findValue returns the key, or nil if it is absent.
func (s *Store) findValue(ctx context.Context, keysOnly bool) (*keyValue, error) {
	list, err := s.list(ctx, &keyRange{key: s.cfg.Key, keysOnly: keysOnly})
	if err != nil {
		return nil, fmt.Errorf("etcdrules: read %s: %w", s.cfg.Key, err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return &list[0], nil
}

func (s *Store) list(ctx context.Context, r *keyRange) ([]keyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	reply, err := s.client.callAsUser(ctx, methodRange, r.encode())
	if err != nil {
		return nil, err
	}
	return decodeRange(reply)
}

// Write replaces version before, 0 for an empty store, by next, and adds next to the history. It returns
// rules.ErrConflict if the store holds another version.
func (s *Store) Write(ctx context.Context, before int64, next *rules.Stored) error {
	stored, revision, err := s.read(ctx)
	if err != nil {
		return err
	}
	if stored == nil && before != 0 || stored != nil && stored.Version != before {
		return rules.ErrConflict
	}
	value, err := json.Marshal(next)
	entry, badEntry := json.Marshal(next.Revision)
	if err := errors.Join(err, badEntry); err != nil {
		return fmt.Errorf("etcdrules: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	reply, err := s.client.callAsUser(ctx, methodTxn, txnIfUnchanged(s.cfg.Key, revision,
		putOp(s.cfg.Key, value),
		putOp(s.historyKey(next.Version), entry),
		deleteOp(s.historyKey(0), s.historyKey(max(next.Version-rules.MaxRevisions+1, 1)))))
	succeeded := false
	if err == nil {
		succeeded, err = decodeTxn(reply)
	}
	if err != nil {
		return fmt.Errorf("etcdrules: write %s: %w", s.cfg.Key, err)
	}
	if !succeeded {
		return rules.ErrConflict
	}
	return nil
}

// historyKey returns the key of a change. The order of the keys is the order of the versions.
func (s *Store) historyKey(version int64) string {
	return fmt.Sprintf("%s/history/%019d", s.cfg.Key, version)
}

// History returns the last changes, newest first.
func (s *Store) History(ctx context.Context) ([]rules.Revision, error) {
	list, err := s.list(ctx, &keyRange{key: s.cfg.Key + "/history/", end: s.cfg.Key + "/history0", // '0' follows '/'
		limit: rules.MaxRevisions, newestFirst: true})
	if err != nil {
		return nil, fmt.Errorf("etcdrules: read the history of %s: %w", s.cfg.Key, err)
	}
	var out []rules.Revision
	for _, kv := range list {
		var r rules.Revision
		if json.Unmarshal(kv.value, &r) == nil && r.Version > 0 { // foreign entries are left out
			out = append(out, r)
		}
	}
	return out, nil
}

// Follow calls fn after every look at the store, at least at each poll: with the content or nil if the store is empty,
// or with the error of the look. All calls are from one goroutine. It returns nil when ctx ends.
func (s *Store) Follow(ctx context.Context, fn func(*rules.Stored, error)) error {
	hints := make(chan struct{}, 1) // one pending look is as good as ten
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		s.watch(ctx, hints)
	}()
	defer func() { <-watching }()
	f := follower{s: s}
	for ctx.Err() == nil {
		stored, err := f.readIfChanged(ctx)
		if ctx.Err() != nil {
			break // the end of ctx is not a failure of etcd
		}
		fn(stored, err)
		// The pause is up to a tenth shorter, so that many followers do not look in step.
		wait.ForHint(ctx, pollEvery-rand.N(pollEvery/10), hints)
	}
	return nil
}

func (s *Store) watch(ctx context.Context, hints chan<- struct{}) {
	for ctx.Err() == nil {
		// The error does not matter, because the poll meets the same trouble and logs it.
		_ = s.client.watch(ctx, s.cfg.Key, func() { wait.Signal(hints) })
		wait.For(ctx, watchAgain)
	}
}

// follower is the state of one Follow. Only one goroutine uses it.
type follower struct {
	s        *Store
	last     *rules.Stored
	revision int64 // etcd's revision of last; 0 if the key was absent
	failing  bool
}

// readIfChanged reads the value if it changed, and logs when trouble begins and ends.
func (f *follower) readIfChanged(ctx context.Context) (*rules.Stored, error) {
	kv, err := f.s.findValue(ctx, true)
	switch {
	case err == nil && kv == nil:
		f.last, f.revision = nil, 0
	case err == nil && (kv.modRevision != f.revision || f.last == nil):
		f.last, f.revision, err = f.s.read(ctx)
	}
	if err != nil && !f.failing {
		f.s.cfg.Log.Warn("etcdrules: cannot read the rules; the known rules stay in force", "err", err)
	} else if err == nil && f.failing {
		f.s.cfg.Log.Info("etcdrules: reading the rules again")
	}
	f.failing = err != nil
	return f.last, err
}
