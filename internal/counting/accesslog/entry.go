// Package accesslog parses one line of a request log and returns its request and the time of the request.
//
//	first lines ──> [Open] ──> [Parser]
//	line ──> [Parser.Parse] ──> [Entry]: hotparam.Request, unix second, nanoseconds
//
// One table has the formats: [Combined], which Apache and nginx write, JSON lines of many programs, and the formats of
// HAProxy, Envoy, AWS and IIS. A log_format of nginx is a format too ([Custom]). [Open] finds the format in the first
// lines, and the words or the objects in which another program wrapped the lines.
//
// The client is the address in the format's own place, which does not depend on what a client writes: nothing to the
// right of that place is searched. Lists of addresses are read from the right, past trusted proxies.
//
// Lines come from strangers, so that a line is not trusted further than it can be checked: a client cannot change the
// time, the address or the request of its own line by the text that it sends, as long as the server escapes quotes. A
// line that does not parse returns an [*Error] that describes the mistake; the package never panics.
//
// The package is pure: a line is an argument, and no file or clock is read. All functions are safe for concurrent use.
// Strings in an Entry are parts of the line, so that keeping one keeps the line's memory: clone the strings that you
// keep.
package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Format is the name of a log format.
type Format string

// The formats.
const (
	// Combined is the common and the combined format of Apache and nginx, optionally with a virtual host as first
	// field. Further fields at the end of a line are ignored.
	Combined Format = "combined"
	// Events is unix_seconds, client, method and target, separated by tabs. Lines that begin with "#" are skipped, as
	// empty ones are in all formats.
	Events Format = "events"
	// JSONL is one object a line with "t" (unix seconds or RFC 3339), "client", "method", "target" and, if known,
	// "host", "user_agent", "referer", "status", and the costs "ms" of the upstream, "bytes" and "cost".
	JSONL Format = "jsonl"
)

// ErrSkip is returned for empty lines and comments, which hold no request.
var ErrSkip = errors.New("accesslog: line holds no request")

// Entry is one line. Parse overwrites all of it, so that one Entry can be used for many lines; it must not be copied,
// because Request.Header points into it.
type Entry struct {
	Second int64 // the unix second of the request
	Nanos  int32 // the part after it, or 0 if the log has whole seconds only
	// Request has a Header with User-Agent and Referer as far as the line has them. The Header is not nil after a
	// successful Parse.
	Request hottype.Request
	Status  int // of the response, or 0 if it is not in the line
	Costs   Costs

	header Header
}

// At returns the time of the request, in UTC.
func (e *Entry) At() time.Time { return time.Unix(e.Second, int64(e.Nanos)).UTC() }

// Header holds the request headers that a log line can contain.
type Header struct{ UserAgent, Referer string }

// Get returns a header by its name in any case, or "" for a header that a log does not contain.
func (h *Header) Get(name string) string {
	switch {
	case strings.EqualFold(name, "User-Agent"):
		return h.UserAgent
	case strings.EqualFold(name, "Referer"):
		return h.Referer
	}
	return ""
}

// Values returns a header as a list, or nil for a header that a log does not contain.
func (h *Header) Values(name string) []string {
	if text := h.Get(name); text != "" {
		return []string{text}
	}
	return nil
}

// Error describes why a line does not parse.
type Error struct {
	Reason string // the expected form, without any part of the line
	Value  string // the part of the line that is wrong, raw and of any length
}

// Error quotes the beginning of the value, so that no control byte of a log reaches a terminal.
func (e *Error) Error() string {
	v, more := e.Value, ""
	if len(v) > 60 {
		v, more = v[:60], "..."
	}
	return fmt.Sprintf("accesslog: %s, not %q%s", e.Reason, v, more)
}

// parseEvent parses `unix_seconds client method target`, separated by tabs.
func parseEvent(line string, e *Entry) error {
	if isBlank(line) || line[0] == '#' {
		return ErrSkip
	}
	t, rest, _ := strings.Cut(line, "\t")
	who, rest, _ := strings.Cut(rest, "\t")
	method, target, ok := strings.Cut(rest, "\t")
	if !ok || strings.IndexByte(target, '\t') >= 0 {
		return &Error{"line must be unix_seconds, client, method and target, separated by tabs", line}
	}
	if e.Second, e.Nanos, ok = parseUnix(t); !ok {
		return &Error{"time must be unix seconds", t}
	}
	return e.setRequest(who, method, target)
}

// setRequest sets the request from the fields of the formats that name them.
func (e *Entry) setRequest(who, method, target string) error {
	switch {
	case who == "":
		return &Error{"client must be an address, a name or -", who}
	case !isToken(method):
		return &Error{"method must be a word", method}
	case target == "":
		return &Error{"target must be a path", target}
	}
	if who != "-" {
		e.Request.Client = hottype.ParseClient(who)
	}
	e.Request.Method, e.Request.Target = method, target
	return nil
}

func isBlank(s string) bool { return strings.TrimLeft(s, " \t") == "" }

// event is one line of a JSONL log. Other fields of a line are ignored.
type event struct {
	T         json.RawMessage `json:"t"`
	Client    string          `json:"client"`
	Method    string          `json:"method"`
	Target    string          `json:"target"`
	Host      string          `json:"host,omitempty"`
	UserAgent string          `json:"user_agent,omitempty"`
	Referer   string          `json:"referer,omitempty"`
	Status    int             `json:"status,omitempty"`
	MS        *float64        `json:"ms,omitempty"`
	Bytes     *int64          `json:"bytes,omitempty"`
	Cost      *float64        `json:"cost,omitempty"`
}

func (ev *event) setCosts(c Costs) {
	if c.Time >= 0 {
		ev.MS = new(float64(c.Time) / 1e6)
	}
	if c.Bytes >= 0 {
		ev.Bytes = &c.Bytes
	}
	if c.Cost >= 0 {
		ev.Cost = &c.Cost
	}
}

func (ev *event) parseCosts() Costs {
	c := NoCosts
	if ev.MS != nil && *ev.MS >= 0 && *ev.MS < 1e12 {
		c.Time = time.Duration(math.Round(*ev.MS * 1e6))
	}
	if ev.Bytes != nil && *ev.Bytes >= 0 {
		c.Bytes = *ev.Bytes
	}
	if ev.Cost != nil && *ev.Cost >= 0 {
		c.Cost = *ev.Cost
	}
	return c
}

// AppendJSONL appends the line of an entry, with its line end. Parse can parse it; bytes that are not UTF-8 become
// U+FFFD. The header of the request may be nil.
func AppendJSONL(line []byte, e *Entry) []byte {
	r := &e.Request
	ev := event{T: appendTime(nil, e.Second, e.Nanos), Client: r.Client.String(), Method: r.Method,
		Target: r.Target, Host: r.Host, Status: e.Status}
	if r.Header != nil {
		ev.UserAgent, ev.Referer = r.Header.Get("User-Agent"), r.Header.Get("Referer")
	}
	ev.setCosts(e.Costs)
	text, err := json.Marshal(&ev)
	if err != nil { // a time that is not a number
		return line
	}
	return append(append(line, text...), '\n')
}

// appendTime appends unix seconds with their fraction.
func appendTime(b []byte, second int64, nanos int32) []byte {
	return fmt.Appendf(b, "%d.%09d", second, nanos)
}

// parseJSON parses one object. It allocates, because encoding/json implements the whole grammar, which is worth more
// here than speed.
func parseJSON(line string, e *Entry) error {
	if isBlank(line) {
		return ErrSkip
	}
	var ev event
	if err := json.Unmarshal([]byte(line), &ev); err != nil {
		return &Error{"line must be a JSON object with t, client, method and target", line}
	}
	var ok bool
	if e.Second, e.Nanos, ok = parseTime(ev.T); !ok {
		return &Error{"t must be unix seconds or RFC 3339", string(ev.T)}
	}
	e.Request.Host = ev.Host
	e.header = Header{UserAgent: ev.UserAgent, Referer: ev.Referer}
	e.Status, e.Costs = ev.Status, ev.parseCosts()
	return e.setRequest(ev.Client, ev.Method, ev.Target)
}

// parseTime parses a JSON number of unix seconds or a JSON string in RFC 3339.
func parseTime(raw json.RawMessage) (second int64, nanos int32, ok bool) {
	if second, nanos, ok = parseUnix(string(raw)); ok {
		return second, nanos, true
	}
	if len(raw) > 0 && raw[0] == '"' {
		var t time.Time
		if err := json.Unmarshal(raw, &t); err != nil {
			return 0, 0, false
		}
		return t.Unix(), int32(t.Nanosecond()), t.Unix() > 0 && t.Unix() <= maxSecond
	}
	// The remaining form is a number with an exponent.
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(f >= 1 && f <= maxSecond) {
		return 0, 0, false
	}
	whole, part := math.Modf(f)
	return int64(whole), int32(part * 1e9), true
}
