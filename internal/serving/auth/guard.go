// Package auth is who may call a listener: a token that callers show, and the
// rule that an address which other machines can reach has one.
//
// Wrong tokens are counted, logged and limited for each client address, in
// bounded memory. The admin listener and the decision API share this package.
package auth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

const (
	// maxAttempts is how many wrong tokens a client may show at once, and how many
	// further ones each minute.
	maxAttempts = 10
	// maxGuessers is how many clients that guess are remembered.
	maxGuessers = 4096
)

// Guard lets through callers that show a token, or that the proxy of [SSO] names. A right token always passes: it has
// at least [MinToken] characters, which cannot be guessed at any rate, and wrong ones behind the same NAT must not lock
// it out. After maxAttempts wrong tokens a client is answered 429 and no longer logged, until it has waited.
//
// Make one with NewGuard, or with NewGuardOf for callers with roles; any number of
// goroutines may use it.
type Guard struct {
	name   string
	sso    SSO
	ask    func(*http.Request) (Caller, bool) // nil: none
	tokens atomic.Pointer[[]Token]            // shared and named ones
	mu     sync.Mutex                         // guards shared and named
	shared []Token                            // the tokens of the whole listener
	named  []Token
	log    *slog.Logger

	guesses            *limit.Memory
	wrong, rateLimited atomic.Uint64
	refusals           *refusals // of gateways; nil: this guard answers people and programs
}

// GuardStats are counters since the start.
type GuardStats struct {
	Unauthorized uint64 `metric:"_unauthorized_total" help:"Requests rejected because the token was missing or wrong."`
	RateLimited  uint64 `metric:"_rate_limited_total" help:"Requests with a wrong token, or none, of clients that had sent too many wrong ones."`
}

// Credentials are who may call a listener.
type Credentials struct {
	Token  string   // one for everybody, with every right
	Shared []string // further ones like it
	Tokens []Token  // named ones
	SSO    SSO
	// Ask authenticates a request in its own way, and is asked first; nil: tokens and SSO do. Where it does not know
	// the caller, a token may.
	Ask func(*http.Request) (Caller, bool)
}

// None reports whether access needs no credentials.
func (c Credentials) None() bool {
	return c.Token == "" && len(c.Shared)+len(c.Tokens) == 0 && c.SSO.UserHeader == "" && c.Ask == nil
}

// NewGuard makes the guard of a listener that has one token. Without it everybody is
// let through.
func NewGuard(name, token string, log *slog.Logger) *Guard {
	return NewGuardOf(name, Credentials{Token: token}, log)
}

// NewGuardOf makes the guard of a listener whose callers have names and roles.
func NewGuardOf(name string, c Credentials, log *slog.Logger) *Guard {
	g := &Guard{
		name: name, shared: sharedTokens(append(c.Shared, c.Token)...), named: c.Tokens, sso: c.SSO,
		ask: c.Ask, log: log,
		guesses: limit.NewMemory(limit.MemoryConfig{MaxSubjects: maxGuessers}),
	}
	tokens := slices.Concat(g.shared, c.Tokens)
	g.tokens.Store(&tokens)
	return g
}

// AllowsAll reports whether everybody is let through.
func (g *Guard) AllowsAll() bool {
	return len(*g.tokens.Load()) == 0 && g.sso.UserHeader == "" && g.ask == nil
}

// CheckTokens rejects named tokens that cannot take the place of those in force: to
// take the last one away would open the listener to everybody.
func (g *Guard) CheckTokens(named []Token) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(named) == 0 && len(g.shared) == 0 && g.sso.UserHeader == "" && !g.AllowsAll() {
		return errors.New("auth: the last token of " + g.name +
			" is gone: everybody would be let in; restart the program if that is meant")
	}
	return nil
}

// Replace puts named tokens in the place of those in force, and reports whether they
// are others. The tokens of the whole listener stay. What CheckTokens
// rejects changes nothing.
func (g *Guard) Replace(named []Token) bool {
	if g.CheckTokens(named) != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.named = named
	return g.enforce()
}

// ReplaceShared puts the tokens of the whole listener in the place of those in force, and reports whether they are
// others. Without a token it changes nothing, because the listener would be open to everybody.
func (g *Guard) ReplaceShared(texts []string) bool {
	tokens := sharedTokens(texts...)
	if len(tokens) == 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shared = tokens
	return g.enforce()
}

// enforce puts shared and named tokens in force. The caller holds mu.
func (g *Guard) enforce() bool {
	all := slices.Concat(g.shared, g.named)
	if slices.Equal(all, *g.tokens.Load()) {
		return false
	}
	g.tokens.Store(&all)
	return true
}

// Stats reads the counters.
func (g *Guard) Stats() GuardStats {
	return GuardStats{Unauthorized: g.wrong.Load(), RateLimited: g.rateLimited.Load()}
}

// Caller is the authenticated sender of a request. An open listener's callers have no name and every right.
type Caller struct {
	Name  string
	Role  Role
	Until time.Time // when the token expires; zero: never
}

// Result is the result of the check of a request.
type Result struct {
	// Caller belongs to status 0.
	Caller Caller
	// Status is 0 for who may pass, else 401, 403 or 429, and 503 for a gateway. RetryAfter belongs to 429.
	Status     int
	RetryAfter time.Duration

	why string // of a rejection, if it is not the usual one
}

// Check asks Credentials.Ask, looks for a user whom the proxy names, and else for a token: as a bearer
// token, or as the password of basic authentication.
func (g *Guard) Check(r *http.Request, now time.Time) Result {
	v := g.check(r, now)
	if v.Status != 0 && g.refusals != nil {
		return g.refuseGateway(r, now)
	}
	return v
}

func (g *Guard) check(r *http.Request, now time.Time) Result {
	if g.AllowsAll() {
		return Result{Caller: Caller{Role: Admin}}
	}
	if g.ask != nil {
		if caller, ok := g.ask(r); ok {
			return Result{Caller: caller}
		}
		if len(*g.tokens.Load()) == 0 {
			g.wrong.Add(1)
			return Result{Status: http.StatusForbidden, why: "This service does not let the caller in."}
		}
	}
	if g.sso.claims(r.Header) {
		caller, why := g.sso.caller(r)
		if why != "" {
			g.wrong.Add(1)
			g.warn(r.RemoteAddr, why)
			return Result{Status: http.StatusForbidden, why: why}
		}
		return Result{Caller: caller}
	}
	return g.checkToken(r, now)
}

func (g *Guard) checkToken(r *http.Request, now time.Time) Result {
	text, shown := shownToken(r)
	if token, ok := find(*g.tokens.Load(), text); ok && shown {
		return g.unexpired(token, r, now)
	}
	client := httplimit.ParseClient(r.RemoteAddr)
	if wait := g.charge(client, now, 0); wait > 0 {
		g.rateLimited.Add(1)
		return Result{Status: http.StatusTooManyRequests, RetryAfter: wait}
	}
	g.wrong.Add(1)
	if shown { // a request without a token, such as a browser's first, is no guess
		g.charge(client, now, 1)
		if g.refusals == nil {
			g.warn(r.RemoteAddr, "a caller showed a wrong token")
		}
	}
	return Result{Status: http.StatusUnauthorized}
}

func (g *Guard) unexpired(t Token, r *http.Request, now time.Time) Result {
	if t.Until.IsZero() || now.Before(t.Until) {
		return Result{Caller: Caller{Name: t.Name, Role: t.Role, Until: t.Until}}
	}
	g.wrong.Add(1)
	g.warn(r.RemoteAddr, "the token of "+t.Name+" has expired")
	return Result{Status: http.StatusUnauthorized, why: "The token has expired."}
}

// Protect puts the guard before a handler.
func (g *Guard) Protect(next http.Handler) http.Handler {
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

// SetHeader sets the fields that go with a rejection.
func (v Result) SetHeader(h http.Header) {
	switch v.Status {
	case http.StatusTooManyRequests:
		h.Set("Retry-After", strconv.Itoa(max(1, int((v.RetryAfter+time.Second-1)/time.Second))))
	case http.StatusUnauthorized:
		h.Add("WWW-Authenticate", `Basic realm="hotparam", charset="UTF-8"`)
		h.Add("WWW-Authenticate", `Bearer realm="hotparam"`)
	case http.StatusServiceUnavailable:
		h.Set("X-Hotparam-Reason", reasonToken)
	}
}

// Detail is what a rejection says to a person.
func (v Result) Detail() string {
	switch {
	case v.why != "":
		return v.why
	case v.Status == http.StatusTooManyRequests:
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

// charge takes n wrong tokens from what a client may show, and returns how long it
// has to wait until it may show one; n = 0 only asks.
func (g *Guard) charge(client hottype.Client, now time.Time, n int64) time.Duration {
	charges := []limit.Charge{{Subject: limit.Subject{Client: client}, Spec: limit.PerMinute(maxAttempts), Cost: n}}
	results := make([]limit.Result, 1)
	if _, err := g.guesses.Take(context.Background(), now, charges, results); err != nil || results[0].Remaining > 0 {
		return 0 // the charge is well formed, so there is no error
	}
	return min(results[0].ResetAfter, time.Minute/maxAttempts)
}

// warn logs a caller that is not let in.
func (g *Guard) warn(from, why string) {
	s := g.Stats()
	g.log.Warn(why, "listener", g.name, "from", from, "wrong", s.Unauthorized, "rate_limited", s.RateLimited)
}
