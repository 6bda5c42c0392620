package decisionapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Bounds of a gateway's report.
const (
	maxOutcomesBytes = 256 << 10
	maxOutcomes      = 1000
	maxOutcomeCount  = 100_000
	maxOutcomeMillis = 10 * 60 * 1000
)

// outcome is a gateway's report of requests that it sent to an upstream.
type outcome struct {
	Upstream string  `json:"upstream"`
	Status   int     `json:"status"`
	MS       float64 `json:"ms"`
	Count    *int64  `json:"count"`
}

// check returns the first mistake in the outcome, or "" if there is none.
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

// Outcomes answers POST /v1/outcomes [{"upstream":"default","status":200,"ms":35.2,"count":1}, …] with {"taken":n}.
// Adaptive limits follow the outcomes that gateways report. A list with a mistake is rejected as a whole. Outcomes of
// upstreams that no limit follows are ignored.
func (d *Decider) Outcomes(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if !d.readBody(w, r, &body, maxOutcomesBytes) {
		return
	}
	list, err := readOutcomes(body.Bytes())
	if err != nil {
		d.rejectCall(w, http.StatusBadRequest, err.Error())
		return
	}
	taken := 0
	for i := range list {
		if d.recordOutcome(&list[i]) {
			taken++
		}
	}
	writeJSON(w, append(strconv.AppendInt([]byte(`{"taken":`), int64(taken), 10), "}\n"...))
}

func readOutcomes(body []byte) ([]outcome, error) {
	var list []outcome
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err := dec.Decode(&list)
	if err == nil {
		if _, end := dec.Token(); end != io.EOF {
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

// recordOutcome records an outcome, and reports whether a limit follows its upstream.
func (d *Decider) recordOutcome(o *outcome) bool {
	n := int64(1)
	if o.Count != nil {
		n = *o.Count
	}
	took := time.Duration(o.MS * float64(time.Millisecond))
	return d.gate.RecordOutcomes(time.Now(), o.Upstream, took, o.Status, n)
}
