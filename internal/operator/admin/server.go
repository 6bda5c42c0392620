package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/access"
)

// Server serves dashboard, API and health checks. Build it with New; all methods may be called by
// any goroutine.
type Server struct {
	cfg    Config
	access *access.Guard
	files  []file
	hub    *hub
	count  counters
	// refusedTold is when refused streams were last logged, in unix nanoseconds.
	refusedTold atomic.Int64

	reading sync.Mutex // one reading of the overrides at a time, in order
	samples int        // taken; for Run alone

	mu                   sync.Mutex // guards the fields below
	rates                *rates
	recent               *recent
	seconds              *seconds
	latest               latest
	knownHot, knownLoops map[string]hotNote
	overrides            overrideNotes
}

// counters are what the server counts about itself.
type counters struct {
	requests, foreignHosts, changes, sampleErrors atomic.Uint64
}

// Stats are counters since the start, and Streams as it is now.
type Stats struct {
	Requests       uint64
	Unauthorized   uint64 // no token, a wrong or an expired one, or a user whom no proxy may name
	Slowed         uint64 // not looked at: too many wrong tokens came from there
	ForeignHosts   uint64 // refused for the name in their Host header
	Changes        uint64 // became hot, cooled, overrides
	SampleErrors   uint64 // reports or overrides that could not be read
	Streams        int64  // event streams open now
	StreamsRefused uint64 // too many were open
	StreamsDropped uint64 // the client did not read fast enough
}

// New builds a server, or says which field of the configuration is wrong. It
// starts nothing and listens nowhere.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg:      cfg,
		access:   access.NewGuardOf("admin", cfg.Access, cfg.Log),
		hub:      newHub(cfg.MaxStreams),
		rates:    newRates(),
		recent:   newRecent(),
		seconds:  newSeconds(),
		knownHot: map[string]hotNote{}, knownLoops: map[string]hotNote{},
	}
	s.files = pageFiles()
	return s, nil
}

// Handler serves everything. The caller owns listener and http.Server; set
// ReadHeaderTimeout, and leave WriteTimeout at 0 or the event streams end with
// it.
func (s *Server) Handler() http.Handler { return s.guard(s.mux()) }

// sampleEvery is the pace of the rates and of the state event.
const sampleEvery = time.Second

// heartbeatEvery is how often a stream carries a comment, so that proxies and
// clients see that it lives even when sampling is slow.
const heartbeatEvery = 15 * time.Second

// Run samples once a second until ctx ends, then ends all event streams, so
// that http.Server.Shutdown need not wait for them. It returns nil: what cannot
// be read is shown, logged once and tried again.
func (s *Server) Run(ctx context.Context) error {
	s.hub.open()
	defer s.hub.close()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	s.sample(ctx, s.cfg.Now())
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.sample(ctx, s.cfg.Now())
		case <-beat.C:
			s.hub.send([]byte(": still here\n\n"))
		}
	}
}

// CloseStreams ends the event streams that are open; their clients come back
// by themselves. Hand it to http.Server.RegisterOnShutdown where the server is
// shut down before Run's context ends.
func (s *Server) CloseStreams() { s.hub.drop() }

// CheckTokens refuses named tokens that cannot take the place of those in force.
func (s *Server) CheckTokens(tokens []access.Token) error { return s.access.CheckTokens(tokens) }

// ReplaceTokens puts named tokens in the place of those in force, once CheckTokens
// has taken them. Open streams end, because who opened one may have lost the right;
// clients come back by themselves.
func (s *Server) ReplaceTokens(tokens []access.Token) {
	if s.access.Replace(tokens) {
		s.CloseStreams()
	}
}

// Publish tells the streams at once what became hot or cooled, what became
// a loop and ceased to be one. It does not block; hand it to the aggregator as OnChange.
func (s *Server) Publish(changes []detect.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		s.emit(detectionChange(c.At, detectionKind(c.Kind), &c.Hot))
	}
}

// PublishSchedule tells the streams that an override began to hold by its schedule,
// or ceased to. It does not block.
func (s *Server) PublishSchedule(o rules.Override, began bool, at time.Time) {
	c := Change{At: at, Kind: overrideEnded, Key: o.Target().String(), Override: &o}
	if began {
		c.Kind = overrideBegan
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emit(c)
}

// emit numbers a change, remembers it and sends it. The caller holds mu, which
// keeps numbers and stream in one order.
func (s *Server) emit(c Change) {
	c.Seq = s.count.changes.Add(1)
	s.recent.note(c)
	s.rememberChange(&c)
	s.cfg.OnChange(c)
	s.hub.send(event("change", c))
}

// Stats returns the server's own counters.
func (s *Server) Stats() Stats {
	h, t := s.hub.stats(), s.access.Stats()
	return Stats{
		Requests:       s.count.requests.Load(),
		Unauthorized:   t.Wrong,
		Slowed:         t.Slowed,
		ForeignHosts:   s.count.foreignHosts.Load(),
		Changes:        s.count.changes.Load(),
		SampleErrors:   s.count.sampleErrors.Load(),
		Streams:        h.open,
		StreamsRefused: h.refused,
		StreamsDropped: h.dropped,
	}
}

// event writes one server-sent event. JSON holds no newline, so one data line
// is enough.
func event(name string, v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		// Our own types fail only by a number that JSON lacks; the page shows
		// that the stream is broken instead of an old state.
		body, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	out := make([]byte, 0, len(name)+len(body)+16)
	out = append(out, "event: "...)
	out = append(out, name...)
	out = append(out, "\ndata: "...)
	out = append(out, body...)
	return append(out, "\n\n"...)
}
