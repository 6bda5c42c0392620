package decisionapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// Bounds of what a gateway may say.
const (
	maxOutcomesBytes = 256 << 10
	maxOutcomes      = 1000
	maxOutcomeCount  = 100_000
	maxOutcomeMillis = 10 * 60 * 1000
)

// outcomeRecorder is a Gate that adapts limits to what upstreams answer.
type outcomeRecorder interface {
	RecordOutcomes(now time.Time, upstream string, took time.Duration, status int, n int64) (known bool)
}

// outcome is what a gateway says of requests that it sent to an upstream.
type outcome struct {
	Upstream string  `json:"upstream"`
	Status   int     `json:"status"`
	MS       float64 `json:"ms"`
	Count    *int64  `json:"count"`
}

// check is what is wrong, "" for nothing.
func (o *outcome) check() string {
	switch {
	case o.Upstream == "":
		return `wants "upstream", the name that the rules have`
	case o.Status != 0 && (o.Status < 100 || o.Status > 599):
		return fmt.Sprintf(`"status" %d is not 100 to 599, or 0 for a client that did not wait`, o.Status)
	case !(o.MS >= 0 && o.MS <= maxOutcomeMillis):
		return fmt.Sprintf(`"ms" %v is not 0 to %d`, o.MS, maxOutcomeMillis)
	case o.Count != nil && (*o.Count < 1 || *o.Count > maxOutcomeCount):
		return fmt.Sprintf(`"count" %d is not 1 to %d`, *o.Count, maxOutcomeCount)
	}
	return ""
}

// Outcomes answers POST /v1/outcomes [{"upstream":"default","status":200,"ms":35.2,"count":1}, …] with
// {"taken":n}: adaptive limits follow what gateways say became of requests. Of a list with a mistake
// nothing is taken. Those of upstreams that no limit follows are left out.
func (d *Decider) Outcomes(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if !d.read(w, r, &body, maxOutcomesBytes) {
		return
	}
	list, err := readOutcomes(body.Bytes())
	if err != nil {
		d.reject(w, http.StatusBadRequest, err.Error())
		return
	}
	taken := 0
	for i := range list {
		if d.recordOutcome(&list[i]) {
			taken++
		}
	}
	write(w, http.StatusOK, append(strconv.AppendInt([]byte(`{"taken":`), int64(taken), 10), "}\n"...))
}

func readOutcomes(body []byte) ([]outcome, error) {
	var list []outcome
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err := dec.Decode(&list)
	if err == nil {
		if _, end := dec.Token(); end != io.EOF { //nolint:errorlint // Token does not wrap it
			err = errors.New("text after the list")
		}
	}
	if err != nil {
		return nil, fmt.Errorf(`want [{"upstream":"default","status":200,"ms":35.2,"count":1}, …]: %w`, err)
	}
	if len(list) > maxOutcomes {
		return nil, fmt.Errorf("%d outcomes are more than %d", len(list), maxOutcomes)
	}
	for i := range list {
		if fault := list[i].check(); fault != "" {
			return nil, fmt.Errorf("outcome %d: %s", i, fault)
		}
	}
	return list, nil
}

// recordOutcome reports whether a limit follows the upstream.
func (d *Decider) recordOutcome(o *outcome) bool {
	n := int64(1)
	if o.Count != nil {
		n = *o.Count
	}
	return d.upstreams != nil && d.upstreams.RecordOutcomes(d.opt.Now(), o.Upstream,
		time.Duration(o.MS*float64(time.Millisecond)), o.Status, n)
}

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
