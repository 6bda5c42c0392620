package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

const (
	// tries is how many wrong tokens a client may show at once, and how many
	// further ones each minute.
	tries = 10
	// guessers is how many clients that guess are remembered.
	guessers = 4096
	// knownSlots is how many clients that showed the token are remembered, each for
	// knownFor.
	knownSlots = 1024
	knownFor   = 10 * time.Minute
	// warnEvery is the least time between two log lines about wrong tokens.
	warnEvery = time.Minute
)

// Guard lets through who shows the token. After [tries] wrong ones a client is
// answered 429 without a comparison, until it has waited. A client that has shown
// the right one lately is always compared: a guesser at its address, behind the
// same NAT perhaps, cannot lock it out.
//
// Make one with NewGuard; any number of goroutines may use it.
type Guard struct {
	name string
	want [sha256.Size]byte
	open bool // there is no token
	log  *slog.Logger

	guesses *limit.Memory
	seed    maphash.Seed
	// known holds, at a client's hash, the hash and the time in seconds of its last
	// right token. Only right tokens write here.
	known [knownSlots]atomic.Uint64

	wrong, slowed atomic.Uint64
	warned        atomic.Int64 // unix nanoseconds of the last log line
}

// GuardStats are counters since the start.
type GuardStats struct {
	// Wrong requests had no token or a wrong one. Slowed were refused without a
	// look at theirs, because their client had shown too many wrong ones.
	Wrong, Slowed uint64
}

// NewGuard makes the guard of a listener. Without a token it lets everybody through.
func NewGuard(name, token string, log *slog.Logger) *Guard {
	return &Guard{
		name: name, want: sha256.Sum256([]byte(token)), open: token == "", log: log,
		guesses: limit.NewMemory(limit.MemoryConfig{MaxSubjects: guessers}), seed: maphash.MakeSeed(),
	}
}

// Stats reads the counters.
func (g *Guard) Stats() GuardStats { return GuardStats{Wrong: g.wrong.Load(), Slowed: g.slowed.Load()} }

// Verdict is what becomes of a request.
type Verdict struct {
	// Status is 0 for who may pass, else 401 or 429. RetryAfter belongs to 429.
	Status     int
	RetryAfter time.Duration
}

// Check looks for the token in a request: as a bearer token, or as the password of
// basic authentication.
func (g *Guard) Check(r *http.Request, now time.Time) Verdict {
	if g.open {
		return Verdict{}
	}
	client := httplimit.ParseClient(r.RemoteAddr)
	known := g.isKnown(client, now)
	if !known {
		if wait := g.charge(client, now, 0); wait > 0 {
			g.slowed.Add(1)
			return Verdict{Status: http.StatusTooManyRequests, RetryAfter: wait}
		}
	}
	shown, ok := shownToken(r)
	if g.matches(shown) && ok {
		if !known {
			g.remember(client, now)
		}
		return Verdict{}
	}
	g.wrong.Add(1)
	if ok { // who shows nothing, such as a browser's first request, guesses nothing
		g.charge(client, now, 1)
		g.warn(r.RemoteAddr, now)
	}
	return Verdict{Status: http.StatusUnauthorized}
}

// Protect puts the guard before a handler.
func (g *Guard) Protect(next http.Handler) http.Handler {
	if g.open {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := g.Check(r, time.Now())
		if v.Status == 0 {
			next.ServeHTTP(w, r)
			return
		}
		v.SetHeader(w.Header())
		httplimit.WriteProblem(w, v.Status, v.Detail())
	})
}

// SetHeader sets the fields that go with a refusal.
func (v Verdict) SetHeader(h http.Header) {
	if v.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.Itoa(max(1, int((v.RetryAfter+time.Second-1)/time.Second))))
		return
	}
	h.Add("WWW-Authenticate", `Basic realm="hotparam", charset="UTF-8"`)
	h.Add("WWW-Authenticate", `Bearer realm="hotparam"`)
}

// Detail is what a refusal says to a person.
func (v Verdict) Detail() string {
	if v.Status == http.StatusTooManyRequests {
		return "Too many wrong tokens came from this address."
	}
	return "The token is missing or wrong."
}

func shownToken(r *http.Request) (string, bool) {
	if _, password, ok := r.BasicAuth(); ok {
		return password, true
	}
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(rest), strings.EqualFold(scheme, "Bearer")
}

// matches compares hashes: they have one length, so the time that it takes tells
// nothing about the token.
func (g *Guard) matches(shown string) bool {
	got := sha256.Sum256([]byte(shown))
	return subtle.ConstantTimeCompare(got[:], g.want[:]) == 1
}

// charge takes n wrong tokens from what a client may show, and returns how long it
// has to wait until it may show one; n = 0 only asks.
func (g *Guard) charge(client hottype.Client, now time.Time, n int64) time.Duration {
	charges := []limit.Charge{{Subject: limit.Subject{Client: client}, Spec: limit.PerMinute(tries), Cost: n}}
	results := make([]limit.Result, 1)
	if _, err := g.guesses.Take(context.Background(), now, charges, results); err != nil || results[0].Remaining > 0 {
		return 0 // the charge is well formed, so there is no error
	}
	return min(results[0].ResetAfter, time.Minute/tries)
}

// slot is where a client is remembered, and what stands there at a time.
func (g *Guard) slot(client hottype.Client, now time.Time) (at *atomic.Uint64, value uint64) {
	h := maphash.Comparable(g.seed, client)
	return &g.known[h%knownSlots], h&^(1<<32-1) | uint64(uint32(now.Unix()))
}

func (g *Guard) remember(client hottype.Client, now time.Time) {
	at, value := g.slot(client, now)
	at.Store(value)
}

func (g *Guard) isKnown(client hottype.Client, now time.Time) bool {
	at, value := g.slot(client, now)
	seen := at.Load()
	age := uint32(value) - uint32(seen)
	return seen>>32 == value>>32 && time.Duration(age)*time.Second < knownFor
}

// warn tells of wrong tokens, at most once in warnEvery.
func (g *Guard) warn(from string, now time.Time) {
	last := g.warned.Load()
	if now.UnixNano()-last < int64(warnEvery) || !g.warned.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	s := g.Stats()
	g.log.Warn("a caller showed a wrong token", "listener", g.name, "from", from, "wrong", s.Wrong, "slowed", s.Slowed)
}
