package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// queryRevision reads the revision that is to be undone; 0: the last.
func queryRevision(r *http.Request) (int64, error) {
	text := r.URL.Query().Get("revision")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, badField("revision", "revision is "+quoted(text), "give one that GET /v1/audit lists")
	}
	return n, nil
}

// queryInt reads a positive number from the query.
func queryInt(r *http.Request, name string, otherwise, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, badField(name, name+" is "+quoted(text), fmt.Sprintf("give a whole number from 1 to %d", most))
	}
	return n, nil
}

// bodyOf is what a change sends, of at most so many bytes.
func bodyOf(w http.ResponseWriter, r *http.Request, what string, most int64, remedy string) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, big := errors.AsType[*http.MaxBytesError](err); big {
		return nil, newProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the %s over %d bytes", what, most),
			remedy)
	}
	if err != nil {
		return nil, newProblem(http.StatusBadRequest, "the body cannot be read: "+err.Error(), "send it again")
	}
	return body, nil
}
