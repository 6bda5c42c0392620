// Package requestlog writes lines about requests. A [Recorder] records the requests that pass, for a while, so that
// learn can read them as a log. [Denials] is the log of denied requests.
//
//	handlers ──> [queue of lines] ──> one writer ──> JSONL, up to Config.MaxBytes bytes
//	gate ──> rate ──> [queue of lines] ──> one writer ──> a file that may be moved, or standard output or error
//
// A request never waits for a log: if the queue is full, its line is left out and counted. A line has the target as
// rules redact it, of a Recorder also the user agent and whether there was a Referer, but no other header and no body.
// A line is short even if a target is long.
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
	maxQueue = 4096 // lines that wait for the writer
	maxAgent = 256
)

// recordedTarget has room for any target that a rule reads.
var recordedTarget = targetBounds{8 << 10, 1 << 10}

// ErrFull is the error of a recorder that has written Config.MaxBytes.
var ErrFull = errors.New("requestlog: all that may be written is written")

// Config holds the settings of a recorder. All fields are required except Now.
type Config struct {
	To       io.Writer // used by Run alone
	MaxBytes int64     // bytes
	Rules    func() *rules.Set
	Clients  *httplimit.Clients
	Now      func() time.Time // nil for time.Now
}

// Recorder records the requests that pass Wrap while Run runs. Any number of goroutines may call its methods, but Run
// only once.
type Recorder struct {
	cfg     Config
	on      atomic.Bool
	queue   queue
	written atomic.Int64
}

func New(cfg Config) *Recorder {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Recorder{cfg: cfg, queue: queue{lines: make(chan []byte, maxQueue)}}
}

// Written returns the number of recorded requests.
func (r *Recorder) Written() int64 { return r.written.Load() }

// Dropped returns the number of requests that were left out because the queue was full.
func (r *Recorder) Dropped() int64 { return int64(r.queue.dropped.Load()) }

func (r *Recorder) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !r.on.Load() {
			next.ServeHTTP(w, req)
			return
		}
		e := r.newEntry(req) // before handlers change it
		httplimit.ServeWithStatus(w, req, next, func(status int) {
			if e.Status = status; status == http.StatusTooManyRequests {
				e.Status = 0 // a limit's status is not the target's
			}
			r.queue.put(accesslog.AppendJSONL(nil, e))
		})
	})
}

type loggedHeaders struct{ agent, referer string }

func (t loggedHeaders) Get(name string) string {
	if name == "Referer" {
		return t.referer
	}
	return t.agent
}

func (t loggedHeaders) Values(name string) []string { return []string{t.Get(name)} }

// newEntry returns the parts of a request that are written, and retains none of its memory.
func (r *Recorder) newEntry(req *http.Request) *accesslog.Entry {
	now, referer := r.cfg.Now(), ""
	if req.Header.Get("Referer") != "" {
		referer = "left out" // the Referer may hold parts that are redacted in targets
	}
	agent := req.Header.Get("User-Agent")
	e := &accesslog.Entry{Second: now.Unix(), Nanos: int32(now.Nanosecond())}
	e.Request = hottype.Request{Method: req.Method, Host: req.Host, Target: req.RequestURI,
		Client: r.cfg.Clients.Of(req), Header: loggedHeaders{strings.Clone(agent[:min(len(agent), maxAgent)]), referer}}
	e.Request.Target = recordedTarget.writtenTarget(r.cfg.Rules(), &e.Request)
	e.Request.Host = ""
	return e
}

// Run records until ctx ends and then returns nil, or until it cannot go on and then returns the reason: ErrFull, or an
// error of the writer.
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
		case line := <-r.queue.lines:
			if err := write(line); err != nil {
				return err
			}
		case <-ctx.Done():
			r.on.Store(false)
			for n := len(r.queue.lines); n > 0; n-- {
				if err := write(<-r.queue.lines); err != nil {
					return err
				}
			}
			return to.Flush()
		}
	}
}
