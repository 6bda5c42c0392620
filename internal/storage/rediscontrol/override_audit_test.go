package rediscontrol

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/persistent"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// writer writes changes of overrides faster than Put, in pipelines.
type writer struct {
	t      *testing.T
	store  *OverrideStore
	pipe   redis.Pipeliner
	stored map[string]string // entries that it wrote
}

func newWriter(t *testing.T, c *Feed) *writer {
	t.Helper()
	if err := writeOverride.Load(t.Context(), c.rdb).Err(); err != nil {
		t.Fatal(err)
	}
	return &writer{t, c.Overrides(), c.rdb.Pipeline(), map[string]string{}}
}

// write adds a change of an override, or its deletion, to the pipeline.
func (w *writer) write(c rules.Change) {
	w.t.Helper()
	entry := ""
	if c.After != nil {
		entry, _ = encode(c.After)
	}
	audit, err := encode(c)
	if err != nil {
		w.t.Fatal(err)
	}
	args := append(w.store.auditArgs(), c.ID, w.stored[c.ID], entry, 0, audit, MaxOverrides, 0, maxLog)
	writeOverride.EvalSha(w.t.Context(), w.pipe, overrideKeys(w.store.feed.keys), args...)
	w.stored[c.ID] = entry
	if w.pipe.Len() >= 500 {
		w.send()
	}
}

// send sends the pipeline and checks that every change was made.
func (w *writer) send() {
	w.t.Helper()
	replies, err := w.pipe.Exec(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range replies {
		if code := r.(*redis.Cmd).Val().([]any)[0]; code != int64(1) {
			w.t.Fatalf("a change got code %v", code)
		}
	}
}

func (w *writer) put(id, author string) {
	w.t.Helper()
	o := block(id, "topic?id="+id, author)
	w.write(rules.Change{At: now(), Author: author, Action: rules.ChangePut, ID: id, After: &o})
}

func (w *writer) delete(id, author string) {
	w.t.Helper()
	w.write(rules.Change{At: now(), Author: author, Action: rules.ChangeDelete, ID: id})
}

// memory returns the bytes that the audit takes in Redis.
func memory(t *testing.T, c *Feed) (sum int64) {
	t.Helper()
	k := c.keys
	for _, key := range []string{k.OverrideChanges(), k.OverrideChangeIndex(), k.OverrideAuthors()} {
		sum += c.rdb.MemoryUsage(t.Context(), key, 0).Val()
	}
	return sum
}

// TestAudit_KeepsWhatOthersDid states that no number of changes by one author drops a change of an author with fewer,
// and that the audit never takes more than its bound in Redis.
func TestAudit_KeepsWhatOthersDid(t *testing.T) {
	t.Parallel()
	for _, changes := range []int{1010, 20_000} {
		s := redistest.Start(t)
		c := open(t, s.Addr())
		c.maxAudit = 300 << 10
		store := c.Overrides()
		v := put(t, store, block("victim", "topic?id=1", "ann"))
		w := newWriter(t, c)
		for i := range changes {
			w.put(fmt.Sprint("o", i%500), "mallory")
		}
		w.send()
		found, err := store.FindChanges(t.Context(), rules.AuditQuery{ID: "victim", Limit: 9})
		if err != nil || len(found) != 1 || !cmp.Equal(found[0].After, &v) {
			t.Errorf("of the victim after %d changes: %+v, %v", changes, found, err)
		}
		all, err := store.Audit(t.Context(), 1<<20)
		if err != nil || len(all) < 300 || all[0].ID != fmt.Sprint("o", (changes-1)%500) ||
			all[len(all)-1].ID != "victim" {
			t.Errorf("%d changes, %v", len(all), err)
		}
		if n := memory(t, c); n > 300<<10 || n < 150<<10 {
			t.Errorf("the audit takes %d bytes, at most %d", n, 300<<10)
		}
		put(t, store, v)
		if st := c.Stats(); st.AuditDropped == 0 || st.AuditBytes < 150<<10 || st.AuditBytes > 300<<10 {
			t.Errorf("%d dropped, %v bytes", st.AuditDropped, st.AuditBytes)
		}
	}
}

// keptCopy is a copy of the overrides on the disk of a process that does not run.
type keptCopy struct{ overrideCopy }

func (c keptCopy) Load() (int64, map[string]string)         { return c.version, maps.Collect(c.entries.All()) }
func (c keptCopy) Save(int64, persistent.Map[string]) error { return nil }
func (c keptCopy) Compact() error                           { return nil }

// TestMerge_RestoresNoDeletedOverride states that no number of changes lets a deleted override return from an older
// copy: neither if the audit has dropped the deletion, nor if the deletion is no longer known.
func TestMerge_RestoresNoDeletedOverride(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]func(w *writer){
		"20,000 changes": func(w *writer) {
			for i := range 20_000 {
				w.put(fmt.Sprint("o", i%50), "mallory")
			}
		},
		"10,010 deletions": func(w *writer) {
			for i := range maxRemovals + 10 {
				w.put(fmt.Sprint("o", i), "mallory")
				w.delete(fmt.Sprint("o", i), "mallory")
			}
		},
	} {
		s := redistest.Start(t)
		c := open(t, s.Addr())
		c.maxAudit = 100 << 10
		store := c.Overrides()
		victim := put(t, store, block("victim", "topic?id=1", "ann"))
		put(t, store, block("deleted", "topic?id=2", "mallory"))
		late := open(t, s.Addr()) // it polls again at the end
		poll := poller(t, late)
		poll()
		if err := store.Delete(t.Context(), "deleted", "mallory"); err != nil {
			t.Fatal(err)
		}
		w := newWriter(t, c)
		flood(w)
		w.send()
		stopped := open(t, s.Addr())
		stopped.Overrides().LoadCopy(keptCopy{*late.knownState()})
		for who, got := range map[string][]rules.Override{"one that was away": poll(),
			"one that was stopped": poller(t, stopped)(), "the store": list(t, open(t, s.Addr()).Overrides())} {
			deleted := func(o rules.Override) bool { return o.ID == "deleted" }
			if !slices.ContainsFunc(got, func(o rules.Override) bool { return cmp.Equal(o, victim) }) ||
				slices.ContainsFunc(got, deleted) {
				t.Errorf("%s, %s: the block is lost or the deleted override is back: %.300v", name, who, got)
			}
		}
		if n := c.rdb.ZCard(t.Context(), c.keys.OverrideRemoved()).Val(); n > maxRemovals {
			t.Errorf("%s: %d removals are kept", name, n)
		}
	}
}

// TestMerge_KeepsWhatOnlyACopyHas states that an override that Redis lost returns, although many others were changed
// and deleted before the process that knows it polled.
func TestMerge_KeepsWhatOnlyACopyHas(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	old := open(t, s.Addr())
	a := put(t, old.Overrides(), block("a", "topic?id=1", "ann"))
	poll := poller(t, old)
	poll()
	s.Flush()
	c := open(t, s.Addr())
	w := newWriter(t, c)
	for i := range 2 * maxRecent {
		w.put("b", "ann")
		if i%3 == 0 {
			w.delete("b", "ann")
		}
	}
	w.delete("b", "ann")
	w.send()
	if got := poll(); !cmp.Equal(got, []rules.Override{a}) {
		t.Error(cmp.Diff(got, []rules.Override{a}))
	}
}

// TestAudit_DropsAsTheModel states that the audit drops the oldest change of the author with most bytes, as a simple
// model does, and that every author keeps the share that the store of one process leaves it.
func TestAudit_DropsAsTheModel(t *testing.T) {
	t.Parallel()
	m := redistest.Start(t)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		c := openWith(t, redisclient.Config{Addrs: []string{m.Addr()}, Namespace: fmt.Sprint("n", runs)})
		c.maxAudit = 20_000
		w := newWriter(t, c)
		var model []rules.Change // oldest first
		size := func(c rules.Change) int {
			text, err := encode(c)
			if err != nil {
				rt.Fatal(err)
			}
			return len(text) + len(`"revision":1795957320549503,`) + 2*len(c.Author) + 400
		}
		sizes := func(list []rules.Change) (by map[string]int, sum int) {
			by = map[string]int{}
			for _, c := range list {
				by[c.Author] += size(c)
				sum += size(c)
			}
			return by, sum
		}
		var all []rules.Change
		largest := 0
		for i := range rapid.IntRange(1, 80).Draw(rt, "changes") {
			next := rules.Change{Author: rapid.SampledFrom([]string{"", "ann", "bob", "cid"}).Draw(rt, "author"),
				Action: "test", ID: fmt.Sprint("o", i),
				Of: strings.Repeat("x", rapid.IntRange(0, 2000).Draw(rt, "size"))}
			next.At = now().Truncate(time.Second) // all texts of times have one length
			w.write(next)
			all, largest = append(all, next), max(largest, size(next))
			for {
				by, sum := sizes(model)
				if sum+size(next) <= c.maxAudit {
					break
				}
				author := slices.MaxFunc(slices.Sorted(maps.Keys(by)), func(x, y string) int {
					if by[x] != by[y] {
						return by[x] - by[y]
					}
					return strings.Compare(x, y)
				})
				i := slices.IndexFunc(model, func(c rules.Change) bool { return c.Author == author })
				model = slices.Delete(model, i, i+1)
			}
			model = append(model, next)
		}
		w.send()
		got, err := c.Overrides().Audit(t.Context(), 1000)
		if err != nil {
			rt.Fatal(err)
		}
		slices.Reverse(got)
		var ids, want []string
		for _, c := range got {
			ids = append(ids, c.ID)
		}
		for _, c := range model {
			want = append(want, c.ID)
		}
		if !slices.Equal(ids, want) {
			rt.Fatalf("the audit has %v, want %v", ids, want)
		}
		written, _ := sizes(all)
		kept, _ := sizes(model)
		for author, excess := range rules.AuditExcess(written, c.maxAudit) {
			share := written[author] - max(excess, 0)
			if kept[author] < share-4*largest || kept[author] > share+4*largest {
				rt.Fatalf("%q keeps %d of %d bytes, want %d", author, kept[author], written[author], share)
			}
		}
	})
}

// older is a program of an earlier version, which writes its changes to the list alone.
type older struct {
	*testing.T
	c *Feed
}

func (p older) change(id string, after *rules.Override) {
	p.Helper()
	ctx, k, rdb := p.Context(), p.c.keys, p.c.rdb
	version := max(parseNumber(rdb.Get(ctx, k.OverrideVersion()).Val())+1, now().UnixMicro())
	c := rules.Change{Revision: version, At: now(), Author: "old", Action: rules.ChangeDelete, ID: id, After: after}
	if after == nil {
		rdb.HDel(ctx, k.Overrides(), id)
	} else {
		c.Action = rules.ChangePut
		text, _ := encode(after)
		rdb.HSet(ctx, k.Overrides(), id, text)
	}
	text, err := encode(c)
	if err != nil {
		p.Fatal(err)
	}
	rdb.LPush(ctx, k.OverrideAudit(), text)
	rdb.LTrim(ctx, k.OverrideAudit(), 0, maxRecent-1)
	if err := rdb.Set(ctx, k.OverrideVersion(), version, time.Hour).Err(); err != nil {
		p.Fatal(err)
	}
}

// TestAudit_ReadsOlderPrograms states that the changes of programs of an earlier version are in the audit at once, that
// they are kept as others, and that such programs find all changes where they read.
func TestAudit_ReadsOlderPrograms(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	old, store := older{t, c}, c.Overrides()
	var want []string
	check := func(when string) {
		t.Helper()
		var got []string
		all, err := store.Audit(t.Context(), 100)
		for _, c := range all {
			got = append(got, c.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", when, got, err, want)
		}
		of, err := store.FindChanges(t.Context(), rules.AuditQuery{ID: "b", Limit: 9})
		if err != nil || len(want) > 1 && (len(of) != 1 || of[0].ID != "b") {
			t.Errorf("%s: of b %v, %v", when, of, err)
		}
	}
	change := func(id string, by func(id string)) {
		by(id)
		want = slices.Insert(want, 0, id)
		check("after " + id)
	}
	byOld := func(id string) {
		o := block(id, "topic?id=1", "old")
		old.change(id, &o)
	}
	byNew := func(id string) { put(t, store, block(id, "topic?id=1", "ann")) }
	change("a", byOld)
	change("b", byOld)
	change("c", byNew)
	change("d", byNew)
	change("e", byOld)
	change("f", byNew)
	if list := c.rdb.LRange(t.Context(), c.keys.OverrideAudit(), 0, -1).Val(); len(list) != len(want) ||
		!strings.Contains(list[0], `"id":"f"`) {
		t.Errorf("programs of an earlier version find %q", list)
	}
	w := newWriter(t, c)
	for range maxRecent + 10 {
		w.put("flood", "mallory")
	}
	w.send()
	want = want[:0]
	if of, err := store.FindChanges(t.Context(), rules.AuditQuery{ID: "a", Limit: 9}); err != nil || len(of) != 1 {
		t.Errorf("of a after the upgrade: %v, %v", of, err)
	}
}

// restore makes changes of n overrides at one version, as a program that writes back what Redis lost.
func (p older) restore(n int) {
	p.Helper()
	ctx, k, pipe := p.Context(), p.c.keys, p.c.rdb.TxPipeline()
	version := max(parseNumber(p.c.rdb.Get(ctx, k.OverrideVersion()).Val())+1, now().UnixMicro())
	for i := range n {
		o := block(fmt.Sprint("r", i), "topic?id=1", "old")
		entry, _ := encode(o)
		change, err := encode(rules.Change{Revision: version, At: now(), Author: restoredBy, Action: rules.ChangePut,
			ID: o.ID, After: &o})
		if err != nil {
			p.Fatal(err)
		}
		pipe.HSet(ctx, k.Overrides(), o.ID, entry)
		pipe.LPush(ctx, k.OverrideAudit(), change)
	}
	pipe.LTrim(ctx, k.OverrideAudit(), 0, maxRecent-1)
	pipe.Set(ctx, k.OverrideVersion(), version, time.Hour)
	if _, err := pipe.Exec(ctx); err != nil {
		p.Fatal(err)
	}
}

// TestAudit_CopiesInParts states that a call copies at most maxCopied changes of programs of an earlier version and
// changes nothing else until all are copied, and that readers find each change once after every call, also if changes
// share a revision and if such a program makes more changes in the meantime.
func TestAudit_CopiesInParts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.Addr())
	old, store, ctx, k, rdb := older{t, c}, c.Overrides(), t.Context(), c.keys, s.Client()
	put(t, store, block("first", "topic?id=1", "ann"))
	start := parseNumber(rdb.Get(ctx, k.OverrideVersion()).Val())
	o := block("o", "topic?id=1", "old")
	old.change("o", &o)
	old.change("o", nil)
	old.restore(3*maxCopied + 1)
	for range maxCopied {
		old.change("o", &o)
	}
	left, added := 2+3*maxCopied+1+maxCopied, 0
	next := block("next", "topic?id=1", "ann")
	entry, _ := encode(next)
	change, _ := encode(rules.Change{At: now(), Author: "ann", Action: rules.ChangePut, ID: "next", After: &next})
	for left >= 0 {
		list := store.decodeChanges(rdb.LRange(ctx, k.OverrideAudit(), 0, -1).Val())
		if got, err := store.Audit(ctx, 2*maxRecent); err != nil || !cmp.Equal(got, list) {
			t.Fatalf("%d changes to copy: the audit has %d changes, want %d; %v", left, len(got), len(list), err)
		}
		if ids, known, err := store.removedSince(ctx, start-1); !slices.Contains(ids, "o") || !known || err != nil {
			t.Fatalf("%d changes to copy: removed are %v, %v, %v", left, ids, known, err)
		}
		version := rdb.Get(ctx, k.OverrideVersion()).Val()
		reply, err := writeOverride.Run(ctx, rdb, store.scriptKeys(), append(store.auditArgs(), "next", "", entry, 0,
			change, MaxOverrides, 0, maxLog)...).Int64Slice()
		if err != nil {
			t.Fatal(err)
		}
		copied, code := maxCopied, int64(notCopied)
		if left <= maxCopied {
			copied, code = left+1, 1 // with the own change
		}
		added += copied
		if n := rdb.ZCard(ctx, k.OverrideChanges()).Val(); n != int64(1+added) || reply[0] != code {
			t.Fatalf("%d changes to copy: code %d, %d are in the audit, want %d, %d", left, reply[0], n, code, 1+added)
		}
		if now := rdb.Get(ctx, k.OverrideVersion()).Val(); code != 1 && now != version {
			t.Fatalf("a call that copied made version %s of %s", now, version)
		}
		if left -= copied; left > 0 {
			old.change("late", &o)
			left++
		}
	}
	if found, err := store.FindChanges(ctx, rules.AuditQuery{Limit: 1}); err != nil || found[0].ID != "next" {
		t.Errorf("the newest change is %v, %v", found, err)
	}
}

// TestAudit_CopiesAllForOneWrite states that one write, by either script, copies all changes of programs of an earlier
// version before its own.
func TestAudit_CopiesAllForOneWrite(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(store *OverrideStore){
		"put": func(store *OverrideStore) { put(t, store, block("new", "topic?id=2", "ann")) },
		"restore": func(store *OverrideStore) {
			entry, _ := encode(block("new", "topic?id=2", "ann"))
			known := &overrideCopy{version: now().Add(time.Minute).UnixMicro(),
				entries: entriesOf(map[string]string{"new": entry})}
			stored, err := store.read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			stored = &overrideCopy{version: stored.version} // so the audit gets one change
			if done, err := store.runRestore(t.Context(), stored, known); !done || err != nil {
				t.Fatal(done, err)
			}
		},
	} {
		c := open(t, redistest.Start(t).Addr())
		older{t, c}.restore(maxRecent)
		write(c.Overrides())
		all, err := c.Overrides().Audit(t.Context(), 2*maxRecent)
		if err != nil || len(all) != maxRecent+1 || all[0].ID != "new" || all[maxRecent].ID != "r0" {
			t.Errorf("%s: %d changes, %v", name, len(all), err)
		}
		if n := c.rdb.ZCard(t.Context(), c.keys.OverrideChanges()).Val(); n != maxRecent+1 {
			t.Errorf("%s: %d changes were copied", name, n)
		}
	}
}

// TestMerge_KnowsDeletionsOfOlderPrograms states that a deletion by a program of an earlier version holds, copied or
// not, while an override that Redis lost returns.
func TestMerge_KnowsDeletionsOfOlderPrograms(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"the last change", "before few", "before many", "copied", "before too many"} {
		s := redistest.Start(t)
		c := open(t, s.Addr())
		old, store := older{t, c}, c.Overrides()
		a := put(t, store, block("a", "topic?id=1", "ann"))
		deleted := put(t, store, block("deleted", "topic?id=2", "ann"))
		late := open(t, s.Addr())
		poll := poller(t, late)
		poll()
		s.Flush() // a program that knows neither sets the second one again
		text, _ := late.knownState().entries.Get("deleted")
		s.Client().HSet(t.Context(), c.keys.Overrides(), "deleted", text)
		old.change("deleted", &deleted)
		old.change("deleted", nil)
		changes := map[string]int{"before few": 3, "before many": fewChanges + 3, "before too many": maxRecent}[name]
		o := block("o", "topic?id=3", "old")
		for range changes {
			old.change("o", &o)
		}
		want := []rules.Override{a, o}[:1+min(changes, 1)]
		if name == "copied" {
			stranger := open(t, s.Addr()).Overrides()
			want = append(want, put(t, stranger, block("p", "topic?id=4", "ann")))
		}
		if name == "before too many" {
			want = want[1:] // the state of Redis holds
		}
		got := poll()
		for i := range got {
			got[i].Created = time.Time{}
		}
		for i := range want {
			want[i].Created = time.Time{}
		}
		if !cmp.Equal(got, want) {
			t.Errorf("%s: %s", name, cmp.Diff(got, want))
		}
	}
}

// TestFindChanges_PagesAsSelect states that queries return what Select returns of the whole audit, also among changes
// that were restored together and beyond a page.
func TestFindChanges_PagesAsSelect(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.Addr())
	w := newWriter(t, c)
	for i := range auditPage {
		w.put([]string{"a", "b", "c"}[i%3], "ann")
	}
	w.send()
	texts := map[string]string{}
	for i := range 2 * auditPage {
		id := fmt.Sprint("r", i)
		texts[id], _ = encode(block(id, "topic?id="+id, "ann"))
	}
	many := &overrideCopy{version: now().UnixMicro() + 10, entries: entriesOf(texts)}
	store := c.Overrides()
	state, err := store.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if done, err := store.runRestore(t.Context(), state, many); !done || err != nil {
		t.Fatal(done, err)
	}
	put(t, store, block("z", "topic?id=1", "ann"))
	all, err := store.Audit(t.Context(), 1<<20)
	if err != nil || len(all) != 1501 || all[0].ID != "z" || all[1500].ID != "a" {
		t.Fatalf("%d changes, %v", len(all), err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		q := rules.AuditQuery{
			ID:    rapid.SampledFrom([]string{"", "a", "b", "r7", "z", "none", "a:1"}).Draw(rt, "id"),
			Limit: rapid.SampledFrom([]int{1, 2, 100, auditPage, 1200, 3000}).Draw(rt, "limit"),
		}
		if rapid.Bool().Draw(rt, "before") {
			at := rapid.IntRange(0, len(all)-1).Draw(rt, "at")
			q.Before = all[at].Revision + int64(rapid.IntRange(-1, 1).Draw(rt, "off"))
		}
		got, err := store.FindChanges(t.Context(), q)
		if want := q.Select(all); err != nil || !cmp.Equal(got, want) {
			rt.Fatalf("%+v: %d changes, want %d; %v", q, len(got), len(want), err)
		}
	})
}
