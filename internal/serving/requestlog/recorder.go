// Package requestlog writes down the requests that pass, for a while, so that learn can read them as a log.
//
//	handlers ──> [queue of lines] ──> one writer ──> JSONL, up to Config.MaxBytes bytes
//
// A request never waits for it: where the queue is full its line is left out and counted. A line has the time, the
// client, the method, the target as rules redact it, the status, the user agent, and whether there was a Referer; no
// other header and no body. However long a target is, a line is short.
package requestlog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

const (
	queue     = 4096    // lines that wait for the writer
	maxTarget = 8 << 10 // bytes; of a longer target only the path is written
	maxPath   = 1 << 10 // and of a longer path its beginning
	maxAgent  = 256
)

// ErrFull is the end of a recorder that has written all that it may.
var ErrFull = errors.New("requestlog: all that may be written is written")

// Config says what is written where. All of it is required but Now.
type Config struct {
	To       io.Writer // used by Run alone
	MaxBytes int64     // bytes
	Rules    func() *rules.Set
	Clients  *httplimit.Clients
	Now      func() time.Time // nil: time.Now
}

// Recorder writes down the requests that pass Wrap while Run runs. All methods may be called by many goroutines, Run
// once.
type Recorder struct {
	cfg             Config
	on              atomic.Bool
	lines           chan []byte
	written, missed atomic.Int64
}

func New(cfg Config) *Recorder {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Recorder{cfg: cfg, lines: make(chan []byte, queue)}
}

// Written and Dropped are how many requests were written down, and how many were left out for want of time.
func (r *Recorder) Written() int64 { return r.written.Load() }

// Dropped is documented at Written.
func (r *Recorder) Dropped() int64 { return r.missed.Load() }

func (r *Recorder) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !r.on.Load() {
			next.ServeHTTP(w, req)
			return
		}
		e := r.describe(req) // before handlers change it
		httplimit.ServeWithStatus(w, req, next, func(status int) {
			if e.Status = status; status == http.StatusTooManyRequests {
				e.Status = 0 // a limit says nothing about what was asked for
			}
			r.put(accesslog.AppendJSONL(nil, e))
		})
	})
}

// put queues a line. It does not block.
func (r *Recorder) put(line []byte) {
	select {
	case r.lines <- line:
	default:
		r.missed.Add(1)
	}
}

type loggedHeaders struct{ agent, referer string }

func (t loggedHeaders) Get(name string) string {
	if name == "Referer" {
		return t.referer
	}
	return t.agent
}

func (t loggedHeaders) Values(name string) []string { return []string{t.Get(name)} }

// describe takes from a request what is written, and keeps nothing of it.
func (r *Recorder) describe(req *http.Request) *accesslog.Entry {
	now, referer := r.cfg.Now(), ""
	if req.Header.Get("Referer") != "" {
		referer = "left out" // it may hold what is redacted in targets
	}
	agent := req.Header.Get("User-Agent")
	e := &accesslog.Entry{Second: now.Unix(), Nanos: int32(now.Nanosecond())}
	e.Request = hottype.Request{Method: req.Method, Host: req.Host, Target: short(req.RequestURI),
		Client: r.cfg.Clients.Of(req), Header: loggedHeaders{strings.Clone(agent[:min(len(agent), maxAgent)]), referer}}
	e.Request.Target = printable(r.cfg.Rules().RedactTarget(&e.Request))
	e.Request.Host = ""
	return e
}

// short cuts what is longer than any target that a rule reads.
func short(target string) string {
	if len(target) <= maxTarget {
		return target
	}
	path, _, _ := strings.Cut(target, "?")
	return path[:min(len(path), maxPath)]
}

// printable escapes what is no printable ASCII, as the same target may be sent.
func printable(target string) string {
	return string(httplimit.AppendEscaped(nil, target, func(c byte) bool { return c > ' ' && c < 0x7f }))
}

// Run records until ctx ends, which gives nil, or with why it cannot go on: ErrFull, or an error of the writer.
func (r *Recorder) Run(ctx context.Context) error {
	r.on.Store(true)
	defer r.on.Store(false)
	to, left := bufio.NewWriterSize(r.cfg.To, 1<<16), r.cfg.MaxBytes
	write := func(line []byte) error {
		if left -= int64(len(line)); left < 0 {
			return errors.Join(ErrFull, to.Flush())
		}
		if _, err := to.Write(line); err != nil {
			return fmt.Errorf("requestlog: %w", err)
		}
		r.written.Add(1)
		return nil
	}
	for {
		select {
		case line := <-r.lines:
			if err := write(line); err != nil {
				return err
			}
		case <-ctx.Done():
			r.on.Store(false)
			for n := len(r.lines); n > 0; n-- {
				if err := write(<-r.lines); err != nil {
					return err
				}
			}
			return to.Flush()
		}
	}
}
