package web

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/rules"
)

// QueryInt reads a whole number from 1 to most from the query.
func QueryInt(r *http.Request, name string, otherwise, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, BadField(name, name+" is "+Quoted(text), fmt.Sprintf("give a whole number from 1 to %d", most))
	}
	return n, nil
}

// QueryTime reads a time from the query: RFC 3339 or unix seconds.
func QueryTime(r *http.Request, name string, otherwise time.Time) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < 1<<40 {
		return time.Unix(n, 0).UTC(), nil
	}
	return time.Time{}, BadField(name, name+" "+strconv.Quote(text)+" is no time",
		"give it as 2026-03-14T12:00:00Z, or in seconds since 1970")
}

// IsDryRun reads ?dry_run=.
func IsDryRun(r *http.Request) (bool, error) {
	text := r.URL.Query().Get("dry_run")
	if text == "" {
		return false, nil
	}
	dry, err := strconv.ParseBool(text)
	if err != nil {
		return false, BadField("dry_run", "dry_run is "+Quoted(text), "give true or false")
	}
	return dry, nil
}

// Body reads the body of a change, at most so many bytes of it. What names it in the error, with its verb.
func Body(w http.ResponseWriter, r *http.Request, what string, most int64, remedy string) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, big := errors.AsType[*http.MaxBytesError](err); big {
		return nil, NewProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the %s over %d bytes", what, most),
			remedy)
	}
	if err != nil {
		return nil, NewProblem(http.StatusBadRequest, "the body cannot be read: "+err.Error(), "send it again")
	}
	return body, nil
}

// KeyHref is the path under which the API describes a key.
func KeyHref(key hottype.Key) string { return "/v1/keys/" + url.PathEscape(string(key)) }

// PathKey is the key in the path of a request, canonical and redacted.
func PathKey(r *http.Request, set *rules.Set) (hottype.Key, error) {
	canonical, err := CanonicalKey(r.PathValue("key"))
	if err != nil {
		return "", BadField("key", err.Error(), "ask for /v1/keys/"+url.PathEscape("topic?id=42"))
	}
	canonical, err = Redacted(set, canonical)
	return hottype.Key(canonical), err
}

// Redacted is a key or pattern as a person wrote it, without what must not be seen.
func Redacted(set *rules.Set, key string) (string, error) {
	redacted, err := set.RedactKey(key)
	if err != nil {
		return "", BadField("key", strings.TrimPrefix(err.Error(), "rules: "),
			"write all of the value, what GET /v1/hot shows, or *")
	}
	return redacted, nil
}

// CanonicalKey writes a key that a person gave as requests are counted: pairs
// sorted and escaped in one way. The resource stays as it is.
func CanonicalKey(key string) (string, error) {
	resource, params, hasParams := strings.Cut(key, "?")
	if resource == "" {
		return "", fmt.Errorf("key %s has no resource before its ?", Quoted(key))
	}
	if !hasParams || params == canon.Malformed {
		return key, nil
	}
	selector := canon.NewSelector(canon.Selection{All: true})
	lim := canon.DefaultQueryBounds()
	out, n := selector.Append([]byte(resource), params, nil, &lim, new(canon.Scratch))
	if n == 0 {
		return "", fmt.Errorf("key %s is beyond the limits of a query: %d pairs, names of %d and values of %d bytes",
			Quoted(key), lim.Pairs, lim.NameBytes, lim.ValueBytes)
	}
	return string(out), nil
}

// Rounded drops digits of a rate that mean nothing, and that would be sent to every page every second.
func Rounded(f float64) *float64 {
	f = math.Round(f*100) / 100
	return &f
}

// Quoted shows a caller's bytes in an error, cut to a length that does no harm.
func Quoted(s string) string {
	const most = 120
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
