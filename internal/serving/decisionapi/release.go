package decisionapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// A release token is a lease, as JSON in base64url: so any limiter can release what
// another one gave. It proves nothing but that its bearer knows the lease's ID, which is
// random and which nobody else was told; with a wrong one nothing is released.

// maxReleaseBytes is the longest body of a release: a token of as many places as a
// request has keys would be longer than any that has been given.
const maxReleaseBytes = 64 << 10

func releaseToken(l *hottype.Lease) string {
	text, err := json.Marshal(l)
	if err != nil {
		panic(fmt.Sprintf("decisionapi: a lease is no JSON: %v", err)) // strings, numbers and booleans are
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func readToken(token string) (*hottype.Lease, error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, err
	}
	l := new(hottype.Lease)
	if err := json.Unmarshal(text, l); err != nil {
		return nil, err
	}
	if l.ID == "" || len(l.Places) == 0 || len(l.Places) > rules.MaxKeys+1 {
		return nil, fmt.Errorf("a lease of %d places", len(l.Places))
	}
	return l, nil
}

// Release answers POST /v1/release {"release":"…"} with {"released":true}, or false where
// the place was given back before, or was over.
func (d *Decider) Release(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		d.reject(w, http.StatusMethodNotAllowed, "Ask with POST.")
		return
	}
	var question struct{ Release string }
	body, err := readAll(nil, http.MaxBytesReader(w, r.Body, maxReleaseBytes))
	if err != nil {
		d.rejectBody(w, err)
		return
	}
	if err := json.Unmarshal(body, &question); err != nil {
		d.reject(w, http.StatusBadRequest, `Want {"release":"TOKEN"}.`)
		return
	}
	l, err := readToken(question.Release)
	if err != nil {
		d.reject(w, http.StatusBadRequest, `Field "release" is not what /v1/decide said.`)
		return
	}
	write(w, http.StatusOK, append(strconv.AppendBool([]byte(`{"released":`), d.gate.Release(l)), "}\n"...))
}
