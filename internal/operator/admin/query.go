package admin

import (
	"fmt"
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
