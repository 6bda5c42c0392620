package decisionapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// A release token is a lease and what may be given back, as JSON in base64url: so any limiter can release what
// another one gave. It proves only that its bearer knows the lease's ID, which is
// random and which only the client of the check received; with a wrong one nothing is released.

// maxReleaseBytes is the longest body of a release: a token of as many places as a
// request has keys would be longer than any that has been given.
const maxReleaseBytes = 64 << 10

// releasePayload is what a request has to release.
type releasePayload struct {
	*hottype.Lease
	Refund *hottype.Refund `json:",omitempty"`
}

func releaseToken(v *hottype.Verdict) string {
	text, err := json.Marshal(releasePayload{v.Lease, v.Refund})
	if err != nil {
		panic(fmt.Sprintf("decisionapi: a lease is no JSON: %v", err)) // strings, numbers and booleans are
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func readToken(token string) (*releasePayload, error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, err
	}
	h := new(releasePayload)
	if err := json.Unmarshal(text, h); err != nil {
		return nil, err
	}
	if l := h.Lease; l != nil && (l.ID == "" || len(l.Slots) == 0 || len(l.Slots) > rules.MaxKeys+1) {
		return nil, fmt.Errorf("a lease of %d places", len(l.Slots))
	}
	if r := h.Refund; r != nil && (len(r.Charges) == 0 || len(r.Charges) > rules.MaxKeys) ||
		h.Lease == nil && r == nil {
		return nil, errors.New("nothing to give back")
	}
	return h, nil
}

// Release answers POST /v1/release {"release":"…"} with {"released":true}, or false where
// the place was given back before, or was over. With the "status" of the answer the limits
// of the request's keys get back what their refund_status says.
func (d *Decider) Release(w http.ResponseWriter, r *http.Request) {
	var question struct {
		Release string
		Status  int
	}
	var body bytes.Buffer
	if !d.read(w, r, &body, maxReleaseBytes) {
		return
	}
	if err := json.Unmarshal(body.Bytes(), &question); err != nil {
		d.reject(w, http.StatusBadRequest, `Want {"release":"TOKEN","status":200}; status may be absent.`)
		return
	}
	h, err := readToken(question.Release)
	if err != nil {
		d.reject(w, http.StatusBadRequest, `Field "release" is not what /v1/decide said.`)
		return
	}
	if question.Status != 0 && (question.Status < 200 || question.Status > 599) {
		d.reject(w, http.StatusBadRequest, `Field "status" is no status of an answer: want 200 to 599.`)
		return
	}
	released := h.Lease != nil && d.gate.Release(h.Lease)
	if h.Refund != nil && (h.Lease == nil || released) { // with a place, the second time gives nothing
		d.gate.Refund(h.Refund, question.Status)
	}
	write(w, http.StatusOK, append(strconv.AppendBool([]byte(`{"released":`), released || h.Lease == nil), "}\n"...))
}
