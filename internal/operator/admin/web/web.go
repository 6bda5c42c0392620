// Package web is the form of every request and response of the admin API: routes, problems, JSON bodies, parameters of
// queries, keys in paths, and the caller. It does not know the contents of responses.
//
// A handler returns an error before the first byte of its response, and [AsProblem] makes a response of it.
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

// Route is one path and its handlers by method. The routes of all packages together are the only list of served paths.
// openapi.json is tested against it.
type Route struct {
	Path    string // ServeMux pattern without a method
	Methods map[string]Handler
	Open    bool // needs no token
	// Role is the lowest role that may use methods that change something. 0 means operator. Viewers may read every
	// route.
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

// If returns a handler for programs that have the data of the route, which is so if has returns nil.
func If(has func() error, h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := has(); err != nil {
			return err
		}
		return h(w, r)
	}
}

// Problem is an error in the form of RFC 9457 with additional members: the wrong field and a remedy.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// Percent is the part of all requests that a change would reach, if the change needs confirm=true.
	Percent int `json:"percent,omitempty"`
	// Losses is the number of things that a change of the rules takes away or overrides too much, if the change needs
	// confirm=true.
	Losses int `json:"losses,omitempty"`
}

func (p *Problem) Error() string { return p.Detail }

func NewProblem(status int, detail, remedy string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Remedy: remedy}
}

// BadField returns the problem of one wrong member of a request body, or one wrong query parameter.
func BadField(field, detail, remedy string) *Problem {
	p := NewProblem(http.StatusBadRequest, detail, remedy)
	p.Field = field
	return p
}

// AsProblem converts any error into a problem. Errors that are not problems come from a store, and the request was
// fine, so their status is 503.
func AsProblem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return NewProblem(http.StatusServiceUnavailable, err.Error(), "free space on that disk, and try again")
	}
	return NewProblem(http.StatusServiceUnavailable, err.Error(), "try again; /readyz names the part that is failing")
}

func WriteProblem(w http.ResponseWriter, p *Problem) {
	body, _ := json.Marshal(p) // numbers and texts have a JSON form
	writeBody(w, "application/problem+json", p.Status, body)
}

// WriteJSON responds with v, which must be a type of this program. It can fail only for a number that JSON lacks.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return NewProblem(http.StatusInternalServerError, err.Error(), "report this as a bug")
	}
	writeBody(w, "application/json", status, body)
	return nil
}

// writeBody sends a body. An error means that the client has left, which need not be reported.
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

// Author returns the name under which a change is recorded: the name of the caller's token or user, or else ?author=,
// or else the user of basic authentication.
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

// QueryInt reads a whole number from 1 to most from the query. It returns otherwise if the parameter is absent.
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

// QueryTime reads a time from the query, in RFC 3339 or unix seconds. It returns otherwise if the parameter is absent.
func QueryTime(r *http.Request, name string, otherwise time.Time) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		var n uint64
		n, err = strconv.ParseUint(text, 10, 40)
		t = time.Unix(int64(n), 0).UTC()
	}
	if year := t.UTC().Year(); err == nil && year >= 0 && year <= 9999 { // JSON states no others
		return t, nil
	}
	return time.Time{}, BadField(name, name+" "+strconv.Quote(text)+" is not a time",
		"give it as 2026-03-14T12:00:00Z, or in seconds since 1970")
}

// QueryBool reads true or false from the query. An absent parameter is false.
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

// Body reads the body of a change, up to most bytes. what begins the error about a longer body, with a verb.
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

// KeyHref returns the address that returns a key. The key is in the query, because a gateway that serves the API below
// a prefix may decode %2F in a path, and then asks about another key.
func KeyHref(key hottype.Key) string { return "/v1/key?key=" + queryEscape(string(key)) }

// queryEscape writes a space as %20, which also means a space in a path.
func queryEscape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// Named returns the key or the client that a request names, in its path or in its query.
func Named(r *http.Request, what string) string {
	return cmp.Or(r.PathValue(what), r.URL.Query().Get(what))
}

// Asked returns the key of a request as it was read, so that the caller finds out if a gateway has changed it on the
// way. It returns "" where rules redact keys, because the key may contain values that must not be seen.
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

// NamedClient returns the client that a request names, in the form of limits. A network that is larger than the network
// of one client stays the name of all clients in it.
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

// Redacted returns a key or pattern that a person wrote without the values that the rules redact.
func Redacted(set *rules.Set, key string) (string, error) {
	redacted, err := set.RedactKey(key)
	if err != nil {
		return "", BadField("key", strings.TrimPrefix(err.Error(), "rules: "),
			"write the whole value, the value that GET /v1/hot shows, or *")
	}
	return redacted, nil
}

// Rounded drops meaningless digits of a rate, which would be sent to every page every second.
func Rounded(f float64) *float64 {
	f = math.Round(f*100) / 100
	return &f
}

// Quoted quotes a caller's bytes for an error, cut to a harmless length.
func Quoted(s string) string {
	const most = 120
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
