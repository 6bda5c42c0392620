package program

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/filestore"
)

// fakeStore is a central store that the test controls.
type fakeStore struct {
	mu      sync.Mutex
	stored  *rules.Stored
	err     error
	history []rules.Revision
}

func (s *fakeStore) Read(context.Context) (*rules.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored, s.err
}

func (s *fakeStore) Write(_ context.Context, before int64, next *rules.Stored) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return s.err
	case versionOf(s.stored) != before:
		return rules.ErrConflict
	}
	s.stored, s.history = next, append([]rules.Revision{next.Revision}, s.history...)
	return nil
}

func (s *fakeStore) History(context.Context) ([]rules.Revision, error) { return s.history, s.err }

func (s *fakeStore) Follow(ctx context.Context, _ func(*rules.Stored, error)) error {
	<-ctx.Done()
	return nil
}

// storeRules returns rules with one rule of that name.
func storeRules(name string) string {
	return "rules:\n  - {name: " + name +
		", match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}\n"
}

// following is a program that follows a store, with a clock of the test.
type following struct {
	*Reloader
	t       *testing.T
	store   *fakeStore
	dir     string
	file    string
	now     time.Time
	said    bytes.Buffer
	applied []string // the name of the first rule, each time
	bad     string   // a rule that check rejects
}

func newFollowing(t *testing.T, file string) *following {
	return &following{t: t, store: &fakeStore{}, dir: t.TempDir(), file: file, now: time.Now()}
}

// start builds the parts of a program and returns the rules that it begins with.
func (f *following) start() (string, error) {
	f.t.Helper()
	p, err := config.Build(&config.Aggregator{}, "aggregator", "")
	if err != nil {
		f.t.Fatal(err)
	}
	path := f.dir + "/hotparam.yaml"
	if err := os.WriteFile(path, []byte(f.file), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if _, err := p.Parse([]string{"--config", path}); err != nil {
		f.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&f.said, nil))
	c := &ruleFollower{
		name: "redis:", store: f.store, close: func() error { return nil },
		copy: filestore.NewRulesCopy(f.dir, "news"), log: log, updates: make(chan *rules.Stored, 1),
	}
	check := func(set *rules.Set) error {
		if set.Rules[0].Name == f.bad {
			return errors.New("not enough counters")
		}
		return nil
	}
	first, err := c.findFirstRules(context.Background(), p, check)
	if err != nil {
		return "", err
	}
	f.Reloader = NewReloader(first, c, check, func(set *rules.Set) { f.applied = append(f.applied, set.Rules[0].Name) },
		log)
	set, err := first.RulesToRun()
	if err != nil {
		return "", err
	}
	return set.Rules[0].Name, nil
}

func (f *following) mustStart(want string) {
	f.t.Helper()
	if got, err := f.start(); got != want || err != nil {
		f.t.Fatalf("began with %q, %v; want %q; said %s", got, err, want, f.said.String())
	}
}

// look reads the store once and applies the update that results.
func (f *following) look() {
	s, err := f.store.Read(context.Background())
	f.rules.onRead(context.Background(), s, err, f.now)
	select {
	case s := <-f.rules.next():
		f.applyUpdate(s)
	default:
	}
}

// push writes rules as another process would.
func (f *following) push(text string) {
	f.t.Helper()
	next, err := f.store.stored.With(rules.Revision{At: f.now, Text: text}, 0)
	if err == nil {
		err = f.store.Write(context.Background(), versionOf(f.store.stored), next)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// want reads the store once and checks the rules that have to be in force then.
func (f *following) want(when, name string, version int64, ok bool) {
	f.t.Helper()
	f.look()
	if last := f.applied[max(len(f.applied)-1, 0):]; name != "" && (len(last) == 0 || last[0] != name) {
		f.t.Errorf("%s: applied %v, want %q", when, f.applied, name)
	}
	if st := f.rules.ruleStats(); st.Version != version || f.rules.adminStatus().OK != ok ||
		f.Stats().Success == st.Rejected {
		f.t.Errorf("%s: %+v, %+v; want version %d, ok %v", when, st, f.rules.adminStatus(), version, ok)
	}
}

const newsFile = "namespace: news\n"

func TestFollowRules_PrefersStoreThenCopyThenFile(t *testing.T) {
	t.Parallel()
	f := newFollowing(t, newsFile+storeRules("file"))
	f.mustStart("file")
	if f.rules.adminStatus().OK || f.rules.ruleStats().Version != 0 {
		t.Errorf("%+v: the file's rules are not those of the store", f.rules.adminStatus())
	}
	f.push(storeRules("stored"))
	f.mustStart("stored")
	f.store.err = errors.New("away")
	f.mustStart("stored") // by the copy
	if st := f.rules.ruleStats(); st.Version != 1 || !st.StoreFailing {
		t.Errorf("%+v", st)
	}
	f.store.err = nil
	f.push("rules: [")
	f.mustStart("stored") // from the copy too: the rules of the store cannot be run
	f.want("bad rules in the store", "", 1, false)
	if said := f.said.String(); !strings.Contains(said, "version-2.yaml:1") {
		t.Errorf("does not say what is wrong: %s", said)
	}
	if err := os.WriteFile(f.rules.copy.Path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.mustStart("file")
	f.file = newsFile
	if got, err := f.start(); err == nil || !strings.Contains(err.Error(), "no rules to begin with") {
		t.Errorf("without any rules: %q, %v", got, err)
	}
}

// Rules that a program cannot run are rejected with an error. The copy stays the last valid one.
func TestRuleFollower_RejectedRulesChangeNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no YAML":           "rules: [",
		"no rules":          "rules: []\n",
		"a setting":         storeRules("x") + "redis: {addr: ['10.0.0.1:6379']}\n",
		"another namespace": "namespace: olds\n" + storeRules("x"),
		"too few counters":  storeRules("greedy"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowing(t, newsFile+storeRules("file"))
			f.bad = "greedy"
			f.push(storeRules("good"))
			f.mustStart("good")
			f.want("good", "", 1, true)
			f.push(text)
			f.want("bad", "", 1, false)
			f.want("bad, again", "", 1, false)
			if said := f.said.String(); len(f.applied) != 0 || strings.Count(said, "level=ERROR") != 1 {
				t.Errorf("applied %v, said %s", f.applied, said)
			}
			if saved, err := f.rules.copy.Load(); err != nil || saved.Version != 1 {
				t.Errorf("the copy is %+v, %v", saved, err)
			}
			f.push(storeRules("mended"))
			f.want("mended", "mended", 3, true)
			if saved, err := f.rules.copy.Load(); err != nil || saved.Version != 3 {
				t.Errorf("the copy is %+v, %v", saved, err)
			}
		})
	}
}

// A store that lost its data gets it back; the rules in force stay.
func TestRuleFollower_WritesLostRulesBack(t *testing.T) {
	t.Parallel()
	f := newFollowing(t, newsFile+storeRules("file"))
	f.push(storeRules("one"))
	old := f.store.stored
	f.push(storeRules("two"))
	f.mustStart("two")
	f.want("at first", "", 2, true)
	for name, lost := range map[string]*rules.Stored{"emptied": nil, "a backup": old} {
		f.store.stored, f.now = lost, f.now.Add(writeBackEvery)
		f.look()
		if f.store.stored == nil || f.store.stored.Version != 2 || f.store.history[0].Version != 2 {
			t.Errorf("%s: the store holds %+v", name, f.store.stored)
		}
		f.want(name, "", 2, true)
	}
	// A process that may not write reports that, and tries again when it may.
	f.store.stored, f.now = nil, f.now.Add(writeBackEvery-1)
	f.want("too soon", "", 2, false)
	if !f.rules.ruleStats().Behind {
		t.Error("does not say that the store is behind")
	}
	f.now = f.now.Add(1)
	f.look()
	f.want("healed", "", 2, true)
	// A push on top of a lost version gets a new number.
	f.store.stored = old
	stored, err := f.pushHere(1, storeRules("three"))
	if err != nil || stored.Version != 3 {
		t.Errorf("%+v, %v", stored, err)
	}
	f.want("three", "three", 3, true)
}

// pushHere pushes by the admin page of this program.
func (f *following) pushHere(before int64, text string) (*rules.Stored, error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	defer func() { cancel(); <-done }()
	return ruleAdmin{f.rules, f.Reloader}.Change(ctx, before, rules.Revision{Text: text})
}

func TestRuleAdmin_ChecksPushBeforeWriting(t *testing.T) {
	t.Parallel()
	f := newFollowing(t, newsFile+storeRules("file"))
	f.bad = "greedy"
	f.mustStart("file")
	for _, text := range []string{"rules: [", storeRules("greedy"), "namespace: olds\n" + storeRules("x")} {
		if _, err := f.pushHere(0, text); !errors.Is(err, changes.ErrRejected) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := f.pushHere(7, storeRules("x")); !errors.Is(err, rules.ErrConflict) {
		t.Errorf("on top of what is not there: %v", err)
	}
	if f.store.stored != nil {
		t.Fatalf("stored %+v", f.store.stored)
	}
	for _, before := range []int64{0, 1, rules.AnyVersion} {
		if _, err := f.pushHere(before, storeRules("x")); err != nil {
			t.Errorf("on top of %d: %v", before, err)
		}
	}
	f.store.err = errors.New("away")
	if _, err := f.pushHere(rules.AnyVersion, storeRules("x")); err == nil || errors.Is(err, changes.ErrRejected) {
		t.Errorf("while the store is away: %v", err)
	}
}

// The copy is best effort: a disk that cannot be written is logged, and the rules hold.
func TestRuleFollower_AppliesRulesWithoutDisk(t *testing.T) {
	t.Parallel()
	f := newFollowing(t, newsFile+storeRules("file"))
	f.push(storeRules("one"))
	f.mustStart("one")
	f.rules.copy = filestore.NewRulesCopy(f.dir+"/hotparam.yaml", "news")
	f.push(storeRules("two"))
	f.want("two", "two", 2, false)
	if st := f.rules.ruleStats(); !st.CopyFailing ||
		!strings.Contains(f.said.String(), "no copy of the rules is kept") {
		t.Errorf("%+v: %s", st, f.said.String())
	}
}

// The settings of the file are followed as before while the rules are those of the store.
func TestReloader_FollowsFileBesideStore(t *testing.T) {
	t.Parallel()
	f := newFollowing(t, newsFile+storeRules("file"))
	f.push(storeRules("stored"))
	f.mustStart("stored")
	if err := f.loadFile([]byte(newsFile+storeRules("other")), time.Now()); err != nil {
		t.Fatal(err)
	}
	if f.applied[len(f.applied)-1] != "stored" {
		t.Errorf("applied %v: the rules of the file hold", f.applied)
	}
	if err := f.loadFile([]byte("namespace: olds\n"), time.Now()); err == nil ||
		!strings.Contains(err.Error(), "namespace") {
		t.Errorf("another namespace: %v", err)
	}
}

// A start that could not take the rules of the store is not ready until it has some, so that a rollout stops there.
// One bad push takes no limiter out of service that runs good ones, and the file's rules do until the first push.
func TestRuleFollower_IsReadyOnceRulesHold(t *testing.T) {
	t.Parallel()
	f := newFollowing(t, newsFile+storeRules("file"))
	ready := func(when, why string) {
		t.Helper()
		err := f.rules.checkReady(context.Background())
		if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%s: %v, want %q", when, err, why)
		}
	}
	f.store.err = errors.New("away")
	f.mustStart("file")
	ready("nobody knows the rules", "not known, and there is no copy: away")
	f.store.err = nil
	f.look()
	ready("nothing was pushed", "")
	f.bad = "greedy"
	f.push(storeRules("greedy"))
	f.mustStart("file")
	ready("rejected from the start", "version 1 of redis: is rejected: not enough counters")
	f.look()
	ready("still rejected", "version 1 of redis: is rejected")
	f.push(storeRules("good"))
	f.look()
	ready("mended", "")
	f.push(storeRules("greedy"))
	f.look()
	ready("rejected while it runs", "")
	f.store.err = errors.New("away")
	f.mustStart("good") // by the copy
	ready("the store is away", "")
	f.store.err = nil
	f.mustStart("good") // by the copy
	ready("rejected with a copy", "version 3 of redis: is rejected")
}
