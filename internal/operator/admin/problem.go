package admin

import (
	"encoding/json"
	"errors"
	"net/http"
)

// problem is an error as RFC 9457 writes it, with two members of ours: the
// field that is wrong and what to do about it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

func (p *problem) Error() string { return p.Detail }

func newProblem(status int, detail, remedy string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Remedy: remedy}
}

// badField says that one member of a request body, or one query parameter, is wrong.
func badField(field, detail, remedy string) *problem {
	p := newProblem(http.StatusBadRequest, detail, remedy)
	p.Field = field
	return p
}

// asProblem turns any error into one that can be shown. What is not a problem
// already comes from a store behind us: the request was fine, so 503.
func asProblem(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	return newProblem(http.StatusServiceUnavailable, err.Error(), "try again; /readyz says which part is failing")
}

func writeProblem(w http.ResponseWriter, p *problem) {
	body, _ := json.Marshal(p) // a number and texts have a JSON form
	writeBody(w, "application/problem+json", p.Status, body)
}

// writeJSON sends v, which is one of our own types: the only way to fail is a
// number that JSON lacks.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return newProblem(http.StatusInternalServerError, err.Error(), "report this as a bug")
	}
	writeBody(w, "application/json", status, body)
	return nil
}

// writeBody sends a body. What the client does not take is its own loss.
func writeBody(w http.ResponseWriter, contentType string, status int, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
