// Package auth decides who may call a listener: by a token that callers show, and by the rule that an address which
// other machines can reach needs one.
//
// Wrong tokens are counted, logged and limited for each client address, in bounded memory. The admin listener and the
// decision API share this package.
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
	// maxAttempts is the number of wrong tokens that a client may show at once, and of further ones each minute.
	maxAttempts = 10
	// maxGuessers bounds the clients with wrong tokens that are remembered.
	maxGuessers = 4096
)

// Guard lets callers pass that show a token, or that the proxy of [SSO] names. A right token always passes: it has at
// least [MinToken] characters, which cannot be guessed at any rate, and wrong tokens from behind the same NAT must not
// lock it out. After maxAttempts wrong tokens a client gets 429 and is no longer logged, until it has waited.
//
// Make a Guard with NewGuard, or with NewGuardOf for callers with roles. Any number of goroutines may use it.
type Guard struct {
	name   string
	sso    SSO
	ask    func(*http.Request) (Caller, bool) // may be nil
	tokens atomic.Pointer[[]Token]            // shared and named tokens
	mu     sync.Mutex                         // guards shared and named
	shared []Token                            // the tokens of the whole listener
	named  []Token
	log    *slog.Logger

	guesses            *limit.Memory
	wrong, rateLimited atomic.Uint64
	refusals           *refusals // of gateways; nil if this guard is for people and programs
}

// GuardStats are counters since the start.
type GuardStats struct {
	Unauthorized uint64 `metric:"_unauthorized_total" help:"Requests rejected because the token was missing or wrong."`
	RateLimited  uint64 `metric:"_rate_limited_total" help:"Requests with a wrong or missing token of clients that had sent too many wrong tokens."`
}

// Credentials describe the callers of a listener.
type Credentials struct {
	Token  string   // one for all callers, with every right
	Shared []string // further tokens like it
	Tokens []Token  // named ones
	SSO    SSO
	// Ask authenticates a request in its own way, before tokens and SSO do, or is nil. A caller that it does not know
	// may still have a token.
	Ask func(*http.Request) (Caller, bool)
}

// None reports whether access needs no credentials.
func (c Credentials) None() bool {
	return c.Token == "" && len(c.Shared)+len(c.Tokens) == 0 && c.SSO.UserHeader == "" && c.Ask == nil
}

// NewGuard returns the guard of a listener with one token. Without a token it lets all callers pass.
func NewGuard(name, token string, log *slog.Logger) *Guard {
	return NewGuardOf(name, Credentials{Token: token}, log)
}

// NewGuardOf returns the guard of a listener whose callers have names and roles.
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

// AllowsAll reports whether all callers pass.
func (g *Guard) AllowsAll() bool {
	return len(*g.tokens.Load()) == 0 && g.sso.UserHeader == "" && g.ask == nil
}

// CheckTokens returns an error for named tokens that cannot replace the tokens in force, because removing the last
// token would open the listener to all callers.
func (g *Guard) CheckTokens(named []Token) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(named) == 0 && len(g.shared) == 0 && g.sso.UserHeader == "" && !g.AllowsAll() {
		return errors.New("auth: the last token of " + g.name +
			" is gone: everybody would be let in; restart the program if that is meant")
	}
	return nil
}

// Replace replaces the named tokens in force, and reports whether that changes them. The tokens of the whole listener
// stay. It changes nothing if CheckTokens rejects the tokens.
func (g *Guard) Replace(named []Token) bool {
	if g.CheckTokens(named) != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.named = named
	return g.applyTokens()
}

// ReplaceShared replaces the tokens of the whole listener, and reports whether that changes them. Without a token it
// changes nothing, because the listener would be open to all callers.
func (g *Guard) ReplaceShared(texts []string) bool {
	tokens := sharedTokens(texts...)
	if len(tokens) == 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shared = tokens
	return g.applyTokens()
}

// applyTokens puts shared and named tokens in force, and reports whether that changes them. The caller holds mu.
func (g *Guard) applyTokens() bool {
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
	Until time.Time // when the token expires; zero for never
}

// Result is the result of the check of a request.
type Result struct {
	// Caller is valid with status 0.
	Caller Caller
	// Status is 0 if the caller may pass, otherwise 401, 403 or 429, or 503 for a gateway. RetryAfter is valid with
	// 429.
	Status     int
	RetryAfter time.Duration

	why string // reason of a rejection, if it is not the usual one
}

// Check authenticates a request: by Credentials.Ask, by the user that the proxy names, or by a token, which may be a
// bearer token or the password of basic authentication.
func (g *Guard) Check(r *http.Request, now time.Time) Result {
	v := g.authenticateCaller(r, now)
	if v.Status != 0 && g.refusals != nil {
		return g.refuseGateway(r, now)
	}
	return v
}

func (g *Guard) authenticateCaller(r *http.Request, now time.Time) Result {
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
	if g.sso.hasUserField(r.Header) {
		caller, why := g.sso.callerOf(r)
		if why != "" {
			g.wrong.Add(1)
			g.warnRejection(r.RemoteAddr, why)
			return Result{Status: http.StatusForbidden, why: why}
		}
		return Result{Caller: caller}
	}
	return g.checkToken(r, now)
}

func (g *Guard) checkToken(r *http.Request, now time.Time) Result {
	text, shown := shownToken(r)
	if token, ok := findToken(*g.tokens.Load(), text); ok && shown {
		return g.checkExpiry(token, r, now)
	}
	client := httplimit.ParseClient(r.RemoteAddr)
	if wait := g.chargeGuesses(client, now, 0); wait > 0 {
		g.rateLimited.Add(1)
		return Result{Status: http.StatusTooManyRequests, RetryAfter: wait}
	}
	g.wrong.Add(1)
	if shown { // without a token, as a browser's first request, it is no guess
		g.chargeGuesses(client, now, 1)
		if g.refusals == nil {
			g.warnRejection(r.RemoteAddr, "a caller showed a wrong token")
		}
	}
	return Result{Status: http.StatusUnauthorized}
}

func (g *Guard) checkExpiry(t Token, r *http.Request, now time.Time) Result {
	if t.Until.IsZero() || now.Before(t.Until) {
		return Result{Caller: Caller{Name: t.Name, Role: t.Role, Until: t.Until}}
	}
	g.wrong.Add(1)
	g.warnRejection(r.RemoteAddr, "the token of "+t.Name+" has expired")
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

// SetHeader sets the fields of a rejection.
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

// Detail returns the message of a rejection for people.
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

// chargeGuesses takes n wrong tokens from a client's allowance, and returns how long the client has to wait until it
// may show another token. With n = 0 it takes nothing.
func (g *Guard) chargeGuesses(client hottype.Client, now time.Time, n int64) time.Duration {
	charges := []limit.Charge{{Subject: limit.Subject{Client: client}, Spec: limit.PerMinute(maxAttempts), Cost: n}}
	results := make([]limit.Result, 1)
	if _, err := g.guesses.Take(context.Background(), now, charges, results); err != nil || results[0].Remaining > 0 {
		return 0 // the charge is well formed, so there is no error
	}
	return min(results[0].ResetAfter, time.Minute/maxAttempts)
}

// warnRejection logs a rejected caller.
func (g *Guard) warnRejection(from, why string) {
	s := g.Stats()
	g.log.Warn(why, "listener", g.name, "from", from, "wrong", s.Unauthorized, "rate_limited", s.RateLimited)
}
