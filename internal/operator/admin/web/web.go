// Package web is the form of every request and response of the admin API: routes, problems, JSON bodies, parameters
// of queries, keys in paths, and the caller. It knows nothing of what the routes answer.
//
// A handler returns an error before the first byte of its response; [AsProblem] makes a response of it.
package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/auth"
)

// Handler answers one route. An error becomes problem+json, so it must come before the first byte of the response.
type Handler func(http.ResponseWriter, *http.Request) error

// Route is one path and its handlers by method. The routes of all packages together are the single list of what is
// served; openapi.json is tested against it.
type Route struct {
	Path    string // ServeMux pattern without a method
	Methods map[string]Handler
	Open    bool // needs no token
	// Role is the least that may use the methods that change something; 0: operator.
	// Viewers may read every route.
	Role auth.Role
}

func Get(path string, h Handler) Route {
	return Route{Path: path, Methods: map[string]Handler{http.MethodGet: h}}
}

func Post(path string, h Handler) Route {
	return Route{Path: path, Methods: map[string]Handler{http.MethodPost: h}}
}

func (r Route) Needs(method string) auth.Role {
	if method == http.MethodGet || r.Open {
		return auth.Viewer
	}
	return max(r.Role, auth.Operator)
}

// If is a handler for programs in which has finds no error: they have what the route shows.
func If(has func() error, h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := has(); err != nil {
			return err
		}
		return h(w, r)
	}
}

// Problem is an error as RFC 9457 writes it, with members of ours: the
// field that is wrong and what to do about it.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// Percent is the part of all requests that a change would reach which needs confirm=true.
	Percent int `json:"percent,omitempty"`
	// Losses is how many things a change of the rules takes away or overrides too much, which needs confirm=true.
	Losses int `json:"losses,omitempty"`
}

func (p *Problem) Error() string { return p.Detail }

func NewProblem(status int, detail, remedy string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Remedy: remedy}
}

// BadField is the problem of one wrong member of a request body, or one wrong query parameter.
func BadField(field, detail, remedy string) *Problem {
	p := NewProblem(http.StatusBadRequest, detail, remedy)
	p.Field = field
	return p
}

// AsProblem turns any error into one that can be shown. What is not a problem
// already comes from a store behind us: the request was fine, so 503.
func AsProblem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return NewProblem(http.StatusServiceUnavailable, err.Error(), "free space on that disk, and try again")
	}
	return NewProblem(http.StatusServiceUnavailable, err.Error(), "try again; /readyz says which part is failing")
}

func WriteProblem(w http.ResponseWriter, p *Problem) {
	body, _ := json.Marshal(p) // a number and texts have a JSON form
	writeBody(w, "application/problem+json", p.Status, body)
}

// WriteJSON responds with v, which is one of our own types: the only way to fail is a
// number that JSON lacks.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return NewProblem(http.StatusInternalServerError, err.Error(), "report this as a bug")
	}
	writeBody(w, "application/json", status, body)
	return nil
}

// writeBody sends a body. An error means that the client has left, which needs no report.
func writeBody(w http.ResponseWriter, contentType string, status int, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

type callerKey struct{}

func WithCaller(ctx context.Context, c auth.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func CallerOf(r *http.Request) auth.Caller {
	c, _ := r.Context().Value(callerKey{}).(auth.Caller)
	return c
}

// Author is the name under which a change is recorded: that of the caller's token or user, else ?author=, else the
// user of basic authentication.
func Author(r *http.Request) string { return AuthorOr(r, r.URL.Query().Get("author")) }

func AuthorOr(r *http.Request, named string) string {
	if c := CallerOf(r); c.Name != "" {
		return c.Name
	}
	if named != "" {
		return named
	}
	user, _, _ := r.BasicAuth()
	return user
}

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

// QueryBool reads true or false from the query; absent is false.
func QueryBool(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	yes, err := strconv.ParseBool(text)
	if err != nil {
		return false, BadField(name, name+" is "+Quoted(text), "give true or false")
	}
	return yes, nil
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

// KeyHref returns the address that asks about a key. The key is in the query: a gateway that serves the API below a
// prefix may decode %2F in a path, and then it asks about another key.
func KeyHref(key hottype.Key) string { return "/v1/key?key=" + queryEscape(string(key)) }

// queryEscape writes a space as %20, which is one in a path as well.
func queryEscape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// Named returns the key or the client that a request names, in its path or in its query.
func Named(r *http.Request, what string) string {
	return cmp.Or(r.PathValue(what), r.URL.Query().Get(what))
}

// Asked returns the key that a request names as it was read, so that the caller finds out if a gateway has changed it
// on the way. It is "" where rules redact keys, because it may hold what must not be seen.
func Asked(r *http.Request, set *rules.Set) string {
	if set.Redacts() {
		return ""
	}
	return Named(r, "key")
}

// NamedKey returns the key that a request names, canonical and redacted.
func NamedKey(r *http.Request, set *rules.Set) (hottype.Key, error) {
	canonical, err := rules.CanonicalKey(Named(r, "key"))
	if err != nil {
		return "", BadField("key", err.Error(), "ask for "+KeyHref("topic?id=42"))
	}
	canonical, err = Redacted(set, canonical)
	return hottype.Key(canonical), err
}

// NamedClient returns the client that a request names, as limits know it. A network, longer than that of one client,
// stays the name of all clients in it.
func NamedClient(r *http.Request, set *rules.Set) (hottype.Client, error) {
	name := Named(r, "client")
	c := hottype.ParseClient(name)
	if p, err := netip.ParsePrefix(name); err == nil {
		if p.IsSingleIP() || p.Addr().Is6() && p.Bits() >= cmp.Or(set.IP.IPv6Prefix, 64) {
			return set.IP.ClientOf(hottype.ClientFromAddr(p.Addr())), nil
		}
		return hottype.Client{Name: p.Masked().String()}, nil
	}
	if c = set.IP.ClientOf(c); c.IsZero() {
		return c, BadField("client", "that is not a client", "ask for /v1/client?client=192.0.2.7")
	}
	return c, nil
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
