package decisionapi

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/held"
)

// maxGiven is the greatest cost that a release may have: more than 30 years of milliseconds, and a petabyte.
const maxGiven = 1e12

// maxReleaseBytes is the length of the longest body of a release. A token with as many slots as a request has keys
// would be longer than any that was issued.
const maxReleaseBytes = 64 << 10

// releaseToken holds what a request may return: its lease, and the charges that the status of its response refunds. It
// is written as a signature and JSON, in base64url, so that every limiter with the same key accepts it and no caller
// can change the keys, the cost or the time.
type releaseToken struct {
	*verdict.Lease
	Refund *verdict.Refund `json:",omitempty"`
	// Issuer and Number are unique together. They identify a refund without a lease; a lease can be released only once
	// anyway.
	Issuer, Number uint64
}

// releases writes and reads release tokens.
type releases struct {
	keys   atomic.Pointer[[][]byte] // the first one signs
	issuer uint64
	number atomic.Uint64
	used   usedNumbers
	works  held.Requests
}

// newReleases returns a signer with a random key, which no other process has, until SetSecrets.
func newReleases() *releases {
	r, key := &releases{}, make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	r.issuer = binary.LittleEndian.Uint64(key)
	r.keys.Store(&[][]byte{key})
	return r
}

// SetSecrets replaces the secrets of release tokens. The first one signs, and tokens that any of them signed are
// accepted.
func (d *Decider) SetSecrets(secrets []string) {
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		keys[i] = signText([]byte(secret), []byte("hotparam release token"))
	}
	d.releases.keys.Store(&keys)
}

func signText(key, text []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(text)
	return h.Sum(nil)
}

// writeToken returns the token of an allowed request. The work on the request is measured until the release.
func (r *releases) writeToken(v *verdict.Verdict) string {
	number := r.number.Add(1)
	if w := v.Reports.Work(); w != nil {
		w.Begin(time.Now())
		r.works.Hold(number, v.Lease, held.Duties{Work: w, Measured: true})
	}
	text, err := json.Marshal(releaseToken{v.Lease, v.Reports.Refund(), r.issuer, number})
	if err != nil {
		panic(fmt.Sprintf("decisionapi: a lease is no JSON: %v", err)) // it has strings, numbers and booleans only
	}
	return base64.RawURLEncoding.EncodeToString(append(signText((*r.keys.Load())[0], text), text...))
}

func (r *releases) readToken(token string) (*releaseToken, error) {
	signed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(signed) < sha256.Size || !slices.ContainsFunc(*r.keys.Load(), func(key []byte) bool {
		return hmac.Equal(signed[:sha256.Size], signText(key, signed[sha256.Size:]))
	}) {
		return nil, errors.New("no token of this key")
	}
	t := new(releaseToken)
	return t, json.Unmarshal(signed[sha256.Size:], t)
}

const (
	// usedWindow is the number of an issuer's latest tokens whose use is remembered. A token without a lease is
	// rejected as used if its issuer has issued usedWindow tokens after it, however little time that took. Each issuer
	// takes 128 KiB.
	usedWindow = 1 << 20
	maxIssuers = 16
)

// usedNumbers remembers the used numbers of tokens, as RFC 4303 (section 3.4.3) does for packets: a bit for each of the
// last usedWindow numbers of an issuer. The zero value is ready; any number of goroutines may use it.
type usedNumbers struct {
	mu      sync.Mutex
	issuers map[uint64]*issuedNumbers
}

type issuedNumbers struct {
	highest uint64
	used    [usedWindow / 64]uint64
}

// recordUse records the use of a number, and reports whether it is the first.
func (u *usedNumbers) recordUse(issuer, number uint64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := u.issuers[issuer]
	if n == nil {
		// This happens after restarts of many limiters. The tokens of one of them may be used again.
		if len(u.issuers) >= maxIssuers {
			for other := range u.issuers {
				delete(u.issuers, other)
				break
			}
		}
		if u.issuers == nil {
			u.issuers = map[uint64]*issuedNumbers{}
		}
		n = new(issuedNumbers)
		u.issuers[issuer] = n
	}
	if number > n.highest {
		for i := max(n.highest+1, number-min(number, usedWindow-1)); i <= number; i++ {
			n.used[i%usedWindow/64] &^= 1 << (i % 64)
		}
		n.highest = number
	}
	word, bit := &n.used[number%usedWindow/64], uint64(1)<<(number%64)
	if n.highest-number >= usedWindow || *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// Release answers POST /v1/release {"release":"…"} with {"released":true}, or false if the token was used before or its
// lease is over. If the call has the "status" of the response, the limits of the request's keys get the refund that
// their refund_status selects. For rules with a cost the request has cost the time since the decision, or "ms" of the
// upstream's time, "bytes" of the response, and "cost" in its field, at the limiter that decided.
func (d *Decider) Release(w http.ResponseWriter, r *http.Request) {
	var question struct {
		Release         string
		Status          int
		MS, Bytes, Cost *float64
	}
	var body bytes.Buffer
	if !d.readBody(w, r, &body, maxReleaseBytes) {
		return
	}
	if err := json.Unmarshal(body.Bytes(), &question); err != nil {
		d.rejectCall(w, http.StatusBadRequest, `Want {"release":"TOKEN","status":200}; status, and the costs ms, bytes and cost, may be absent.`)
		return
	}
	t, err := d.releases.readToken(question.Release)
	if err != nil {
		d.rejectCall(w, http.StatusBadRequest,
			`Field "release" is not from a response of /v1/decide; limiters take those of each other if decide.token is the same.`)
		return
	}
	if question.Status != 0 && (question.Status < 200 || question.Status > 599) {
		d.rejectCall(w, http.StatusBadRequest, `Field "status" must be the status of a response, 200 to 599.`)
		return
	}
	given := costs.NothingGiven
	for name, cost := range map[string]*float64{"ms": question.MS, "bytes": question.Bytes, "cost": question.Cost} {
		switch {
		case cost == nil:
		case !(*cost >= 0 && *cost <= maxGiven):
			d.rejectCall(w, http.StatusBadRequest, fmt.Sprintf(`Field %q must be a number from 0 to %g.`, name, float64(maxGiven)))
			return
		case name == "ms":
			given.Time = time.Duration(*cost * float64(time.Millisecond))
		case name == "bytes":
			given.Bytes = int64(*cost)
		default:
			given.Cost = *cost
		}
	}
	if t.Issuer == d.releases.issuer {
		d.releases.works.End(t.Number, held.End{Status: cmp.Or(question.Status, -1), Given: given})
	}
	first := false
	if t.Lease != nil {
		first = d.gate.Release(time.Now(), t.Lease)
	} else {
		first = d.releases.used.recordUse(t.Issuer, t.Number)
	}
	if t.Refund != nil && first {
		d.gate.Refund(time.Now(), t.Refund, question.Status)
	}
	writeJSON(w, append(strconv.AppendBool([]byte(`{"released":`), first), "}\n"...))
}
