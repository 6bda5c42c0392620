package auth

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

const (
	// reasonToken is the X-Hotparam-Reason of a response to a gateway whose token is missing or wrong.
	reasonToken = "bad_token"
	// refusedFor is how long a gateway counts as refused after its last call without a valid token. A gateway without
	// requests of its own makes no calls, so it is longer than a pause between two requests.
	refusedFor = time.Minute
)

// NewGatewayGuard returns the guard of a listener that gateways ask about the requests of their clients. Without a
// token it lets all callers pass. It rejects a call with status 503, whatever the fault of its token, because a gateway
// takes 401, 403 and 429 for a denial of its client, which has done nothing wrong, and 503 for no answer.
func NewGatewayGuard(name, token string, log *slog.Logger) *Guard {
	g := NewGuard(name, token, log)
	g.refusals = &refusals{last: map[hottype.Client]time.Time{}}
	return g
}

// Refused returns the number of addresses from which a gateway was rejected within the last minute.
func (g *Guard) Refused(now time.Time) int { return g.refusals.countRecent(now) }

// refuseGateway records and logs the rejection of a call. The log drops repeated lines.
func (g *Guard) refuseGateway(r *http.Request, now time.Time) Result {
	g.refusals.add(httplimit.ParseClient(r.RemoteAddr), now)
	g.warnRejection(r.RemoteAddr, "a gateway is refused: its token is missing or wrong, and it gets no verdicts; "+
		"give it the token of this listener")
	return Result{Status: http.StatusServiceUnavailable,
		why: "The gateway is refused: its token for the listener " + g.name + " is missing or wrong."}
}

// refusals holds the time of the last rejection of each gateway. It remembers at most maxGuessers addresses.
type refusals struct {
	mu   sync.Mutex
	last map[hottype.Client]time.Time
}

func (r *refusals) add(c hottype.Client, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.last[c]; known || len(r.last) < maxGuessers {
		r.last[c] = now
	}
}

// countRecent forgets the gateways that were rejected longer ago than refusedFor, and returns the number of the others.
func (r *refusals) countRecent(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, at := range r.last {
		if now.Sub(at) >= refusedFor {
			delete(r.last, c)
		}
	}
	return len(r.last)
}
