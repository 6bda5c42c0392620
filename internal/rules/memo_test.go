package rules

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const memoRules = `
rules:
  - {name: host, match: {path: /topic, hosts: [a.example]}, params: [id], continue: true, hot: {rate: 1}}
  - {name: post, match: {path: /topic, methods: [POST]}, params: [lang], hot: {rate: 1}}
  - {name: topic, match: {path: /topic}, params: [id, lang], hot: {rate: 1}}
  - {name: place, match: {path: "/place/{name}"}, params: [path.name, q], hot: {rate: 1}}
`

func memoOf(t testing.TB, yaml string) *Memo {
	t.Helper()
	set, err := Parse("memo.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return NewMemo(set)
}

func (m *Memo) entries() (n int) {
	for i := range m.slots {
		if m.slots[i].entry.Load() != nil {
			n++
		}
	}
	return n
}

// A memo returns the same matches as its set after any requests, and entries do not change.
func TestMemoIsMatch(t *testing.T) {
	t.Parallel()
	m, sc := memoOf(t, memoRules), new(MemoScratch)
	ids := rapid.SampledFrom([]string{"1", "2", "%31", "a&id=b", "a&id=a", "1&lang=en", "x#f", "\x00"})
	one := func(t *rapid.T) {
		req := &hottype.Request{
			Method: rapid.SampledFrom([]string{"GET", "POST", ""}).Draw(t, "method"),
			Host:   rapid.SampledFrom([]string{"a.example", "b.example"}).Draw(t, "host"),
			Target: rapid.SampledFrom([]string{"/topic?id=", "/place/x?q=", "/place/y?q=", "/other?id="}).
				Draw(t, "path") + ids.Draw(t, "id"),
		}
		want, got := m.set.Match(req, new(Scratch)), m.Match(req, sc)
		if !slices.EqualFunc(got, want, func(a, b Match) bool {
			return a.Rule == b.Rule && string(a.Key) == string(b.Key) && a.Malformed == b.Malformed
		}) {
			t.Fatalf("%+v: %+v, want %+v", req, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			one(t)
		}
	})
	if m.entries() == 0 {
		t.Error("nothing was kept")
	}
}

// Targets with values that must not be shown are never kept, and neither are requests whose keys have parts of headers.
func TestMemoKeepsNothingSecret(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]int{
		`rules: [{name: t, match: {path: /t}, params: [id], hot: {rate: 1}}]`:                        1,
		`rules: [{name: t, match: {path: /t}, params: [{name: id, redact: mask}], hot: {rate: 1}}]`:  0,
		"redact: {token: drop}\nrules: [{name: t, match: {path: /t}, params: [id], hot: {rate: 1}}]": 0,
		`rules: [{name: t, match: {path: /t}, params: [id, header.Accept], hot: {rate: 1}}]`:         0,
	} {
		m, sc := memoOf(t, yaml), new(MemoScratch)
		for range 3 {
			m.Match(&hottype.Request{Method: "GET", Target: "/t?id=secret", Header: http.Header{}}, sc)
		}
		if n := m.entries(); n != want {
			t.Errorf("%s: %d entries, want %d", yaml, n, want)
		}
	}
}

// A flood of targets that come once keeps nothing, and soon costs a look-up in 32 requests. Afterwards the targets that
// come again are found again.
func TestMemoInAFlood(t *testing.T) {
	t.Parallel()
	m, sc := memoOf(t, memoRules), new(MemoScratch)
	match := func(id int) (lookedUp bool) {
		lookedUp = sc.skip == 0
		m.Match(&hottype.Request{Method: "GET", Target: fmt.Sprint("/topic?id=", id)}, sc)
		return lookedUp
	}
	n := 0
	for i := range 33_000 {
		if match(i) {
			n++
		}
	}
	if kept := m.entries(); n > memoMost+33_000/memoSkip || kept > 5 { // marks of 16 bits collide
		t.Errorf("%d looked up, %d kept", n, kept)
	}
	for i := range 10_000 {
		match(-i % 8)
	}
	for i := range 100 {
		if !match(-i % 8) {
			t.Fatal("targets that come again are not looked up")
		}
	}
	long := make([]byte, memoBytes)
	for i := range long {
		long[i] = 'x'
	}
	before := m.entries()
	for range 3 {
		m.Match(&hottype.Request{Method: "GET", Target: "/topic?id=" + string(long)}, sc)
	}
	if m.entries() != before {
		t.Error("a long target was kept")
	}
}

// Entries that other goroutines replace meanwhile are never read in part: each target has its own key.
func TestMemoForManyCallers(t *testing.T) {
	t.Parallel()
	m := memoOf(t, memoRules)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			sc := new(MemoScratch)
			for i := range 2000 {
				id := fmt.Sprint(i % 50)
				got := m.Match(&hottype.Request{Method: "GET", Target: "/topic?id=" + id}, sc)
				if len(got) != 1 || string(got[0].Key) != "topic?id="+id {
					t.Errorf("%s: %+v", id, got)
				}
			}
		})
	}
	callers.Wait()
}
