package respcache

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// slowReader is a client that has begun to read a body, and reads on when it may.
type slowReader struct {
	*httptest.ResponseRecorder
	begun, goOn chan struct{}
}

func newSlowReader() *slowReader {
	return &slowReader{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
}

func (w *slowReader) Write(p []byte) (int, error) {
	close(w.begun)
	<-w.goOn
	return len(p), nil
}

// An answer that is taken out counts until its last reader has it, and while it is read it is not given up for others,
// because that would free nothing.
func TestMemory_OfAnAnswerCountsUntilItIsRead(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := newStore(8000)
	sh := s.shardOf([]byte("read"))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	set := func(target string) *answer {
		a := &answer{status: http.StatusOK, body: make([]byte, 2000)}
		s.setAnswer(sh, sh.findEntry(r, []byte(target), "k", true, ""), a, now)
		s.evictExcess(sh)
		return a
	}
	a, w, done := set("read"), newSlowReader(), make(chan struct{})
	go func() {
		defer close(done)
		a.write(w, r, now, nil)
	}()
	<-w.begun
	set("second")
	set("third") // there is room for two
	if sh.resources["read"] == nil || sh.resources["second"] != nil || sh.resources["third"] == nil {
		t.Errorf("not the oldest that is not read is given up: %v", sh.resources)
	}
	s.removeResource(sh, sh.resources["third"])
	s.removeResource(sh, sh.resources["read"])
	if n := s.bytes.Load(); n != a.byteSize() {
		t.Errorf("%d bytes are counted while %d are read", n, a.byteSize())
	}
	close(w.goOn)
	<-done
	if n := s.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are counted of nothing", n)
	}
}

// A body that was buffered counts until the client of the fetch has read it, kept or not.
func TestMemory_OfABufferedBodyCountsUntilItIsRead(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]bool{"kept": false, "broken off": true} {
		f := loneFetch(t, nil, false, time.Unix(1000, 0))
		w, done := newSlowReader(), make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }() // as the server does
			f.streamResponse(w, httptest.NewRequest(http.MethodGet, "/", nil), "miss", false)
		}()
		f.run(http.HandlerFunc(func(h http.ResponseWriter, _ *http.Request) {
			h.Header().Set("Content-Length", "1000")
			_, _ = h.Write(make([]byte, 1000))
			<-w.begun
			if broken {
				panic(http.ErrAbortHandler)
			}
		}))
		f.store.removeResource(f.shard, f.entry.resource)
		if n := f.store.bytes.Load(); n < 1000 {
			t.Errorf("%s: %d bytes are counted while 1000 are read", name, n)
		}
		close(w.goOn)
		<-done
		if n := f.store.bytes.Load(); n != 0 {
			t.Errorf("%s: %d bytes are counted of nothing", name, n)
		}
	}
}

// An answer that a fetch may freshen counts until the fetch has finished.
func TestMemory_OfAPriorAnswerCountsUntilTheFetchLands(t *testing.T) {
	t.Parallel()
	prior := storedAnswer(time.Unix(1000, 0), "Etag", "v")
	f := loneFetch(t, prior, true, time.Unix(1000, 0))
	close(f.gone)
	f.store.removeResource(f.shard, f.entry.resource)
	if n := f.store.bytes.Load(); n != prior.byteSize() {
		t.Errorf("%d bytes are counted, and the prior answer has %d", n, prior.byteSize())
	}
	f.run(http.NotFoundHandler())
	if n := f.store.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are counted of nothing", n)
	}
}
