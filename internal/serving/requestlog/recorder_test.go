package requestlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/requestlog"
)

// recording is a recorder in front of a site whose status is asked for by the header Want.
type recording struct {
	*requestlog.Recorder
	handler http.Handler
	out     bytes.Buffer
}

func newRecording(set *rules.Set, most int64) *recording {
	r := &recording{}
	r.Recorder = requestlog.New(requestlog.Config{To: &r.out, MaxBytes: most, Rules: func() *rules.Set { return set },
		Clients: httplimit.NewClients(nil, "")})
	r.handler = r.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		status := http.StatusOK
		_, _ = fmt.Sscan(req.Header.Get("Want"), &status)
		req.Header.Del("User-Agent") // as handlers may
		w.WriteHeader(status)
	}))
	return r
}

// record calls serve while Run runs, and returns the error of Run.
func (r *recording) record(serve func()) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	serve()
	synctest.Wait()
	cancel()
	return <-ended
}

func request(target string, header ...string) *http.Request {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.RequestURI, req.RemoteAddr = target, "192.0.2.7:1"
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

func (r *recording) visit(target string, header ...string) int {
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, request(target, header...))
	return w.Code
}

// entries reads the written lines as learn does.
func (r *recording) entries(t *testing.T) (all []string) {
	t.Helper()
	for line := range strings.Lines(r.out.String()) {
		var e accesslog.Entry
		if len(line) > 60_000 {
			t.Fatalf("a line of %d bytes", len(line))
		}
		if err := accesslog.JSONL.Parse(strings.TrimSuffix(line, "\n"), &e); err != nil {
			t.Fatalf("%v", err)
		}
		all = append(all, fmt.Sprintf("%d %s %s %s %d %q %t", e.Second, e.Request.Client, e.Request.Method,
			e.Request.Target, e.Status, e.Request.Header.Get("User-Agent"), e.Request.Header.Get("Referer") != ""))
	}
	return all
}

func TestRecorder_RecordsWhileItRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(rules.Default(), 1<<20)
		if r.visit("/before") != http.StatusOK || r.Written() != 0 {
			t.Error("recorded before it runs")
		}
		err := r.record(func() {
			r.visit("/topic?id=1&x=%zz", "User-Agent", "Mozilla", "Referer", "https://h/?token=s3cret")
			r.visit("/gone", "Want", "404")
			r.visit("/much", "Want", "429")
			time.Sleep(time.Second) // of the test's clock
			r.visit("/caf\xc3\xa9\t\"<\x00?a=\xff\x7f", "User-Agent", "\xff")
		})
		now := time.Now().Unix() - 1
		want := []string{
			fmt.Sprintf(`%d 192.0.2.7 GET /topic?id=1&x=%%zz 200 "Mozilla" true`, now),
			fmt.Sprintf(`%d 192.0.2.7 GET /gone 404 "" false`, now),
			fmt.Sprintf(`%d 192.0.2.7 GET /much 0 "" false`, now),
			fmt.Sprintf(`%d 192.0.2.7 GET /caf%%C3%%A9%%09"<%%00?a=%%FF%%7F 200 "�" false`, now+1),
		}
		if got := r.entries(t); err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%v\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if r.visit("/after"); r.Written() != 4 || strings.Contains(r.out.String(), "s3cret") {
			t.Errorf("%d written: %s", r.Written(), &r.out)
		}
	})
}

func TestRecorder_LeavesOutRedactedValues(t *testing.T) {
	t.Parallel()
	set, err := rules.ParseWith("rules.yaml", []byte(`
redact: {token: hash}
rules:
  - {name: user, match: {path: "/user/{token}"}, params: [path.token], hot: {rate: 1}}
  - {name: "*", params: ["*"], hot: {rate: 1}}
`), rules.Options{Secret: []byte("0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(set, 1<<20)
		err := r.record(func() {
			for _, target := range []string{"/a?token=SECRET&id=4", "/a?tok%65n=SECRET&id=4", "/a?TOKEN[x]=SECRET",
				"/user/SECRET?id=1", "http://h/user/SECRET", "/a?id=1&token=" + strings.Repeat("SECRET", 2000)} {
				r.visit(target, "Referer", "/a?token=SECRET")
			}
		})
		all := strings.Join(r.entries(t), "\n")
		if err != nil || r.Written() != 6 || strings.Contains(all, "SECRET") ||
			!strings.Contains(all, "id=4&token=hash-") {
			t.Errorf("%v\n%s", err, all)
		}
	})
}

// However large and many requests are, lines are short and the file ends.
func TestRecorder_BoundsBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(rules.Default(), 200_000)
		err := r.record(func() {
			r.visit("/" + strings.Repeat("a", 10<<20))
			r.visit("/long?"+strings.Repeat("\x00", 10<<20), "User-Agent", strings.Repeat("\xff<", 1<<20))
			r.visit("/most?" + strings.Repeat("<", 8000))
			for n := range 3000 {
				r.visit(fmt.Sprintf("/t?id=%d&x=%s", n, strings.Repeat("\"", 100)))
			}
		})
		if !errors.Is(err, requestlog.ErrFull) || r.out.Len() > 200_000 || r.out.Len() < 150_000 {
			t.Errorf("%v after %d bytes", err, r.out.Len())
		}
		if got := r.entries(t); int64(len(got)) != r.Written() || !strings.Contains(got[1], " /long ") {
			t.Errorf("%d lines of %d, the second %.60s", len(got), r.Written(), got[1])
		}
		if r.visit("/t") != http.StatusOK {
			t.Error("a full recorder keeps requests from being answered")
		}
	})
}

// stuck is a disk that takes nothing until it is released.
type stuck struct{ free chan struct{} }

func (s stuck) Write(p []byte) (int, error) { <-s.free; return len(p), nil }

func TestRecorder_DropsOnSlowDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := stuck{make(chan struct{})}
		r := &recording{}
		r.Recorder = requestlog.New(requestlog.Config{To: disk, MaxBytes: 1 << 30, Rules: rules.Default, Clients: nil})
		r.handler = r.Wrap(http.NotFoundHandler())
		err := r.record(func() {
			for range 20_000 {
				r.visit("/t?id=" + strings.Repeat("a", 100))
			}
			if r.Dropped() < 10_000 || r.Dropped()+r.Written() > 20_000 {
				t.Errorf("%d left out, %d written", r.Dropped(), r.Written())
			}
			close(disk.free)
		})
		if err != nil || r.Dropped()+r.Written() != 20_000 {
			t.Errorf("%v; %d left out, %d written", err, r.Dropped(), r.Written())
		}
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestRecorder_ReportsFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recording{}
		r.Recorder = requestlog.New(
			requestlog.Config{To: failing{}, MaxBytes: 1 << 30, Rules: rules.Default, Clients: nil},
		)
		r.handler = r.Wrap(http.NotFoundHandler())
		err := r.record(func() {
			for range 2000 {
				r.visit("/t?id=" + strings.Repeat("a", 100))
			}
		})
		if err == nil || !strings.Contains(err.Error(), "no space left") || r.visit("/t") != http.StatusNotFound {
			t.Errorf("%v", err)
		}
	})
}
