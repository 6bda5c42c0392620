package accesslog

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// event is one line of a JSONL log. Fields it does not name are ignored.
type event struct {
	T         json.RawMessage `json:"t"`
	Client    string          `json:"client"`
	Method    string          `json:"method"`
	Target    string          `json:"target"`
	Host      string          `json:"host,omitempty"`
	UserAgent string          `json:"user_agent,omitempty"`
	Referer   string          `json:"referer,omitempty"`
	Status    int             `json:"status,omitempty"`
}

// AppendJSONL appends the line of an entry, with its line end. Parse reads it again; what is no UTF-8 becomes
// U+FFFD. The header of the request may be nil.
func AppendJSONL(line []byte, e *Entry) []byte {
	r := &e.Request
	ev := event{T: fmt.Appendf(nil, "%d.%09d", e.Second, e.Nanos), Client: r.Client.String(), Method: r.Method,
		Target: r.Target, Host: r.Host, Status: e.Status}
	if r.Header != nil {
		ev.UserAgent, ev.Referer = r.Header.Get("User-Agent"), r.Header.Get("Referer")
	}
	text, err := json.Marshal(&ev)
	if err != nil { // a time that is no number
		return line
	}
	return append(append(line, text...), '\n')
}

// parseJSON reads one object. It allocates: encoding/json knows every corner
// of the grammar, and that is worth more here than speed.
func parseJSON(line string, e *Entry) error {
	if blank(line) {
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
	e.Status = ev.Status
	return e.setRequest(ev.Client, ev.Method, ev.Target)
}

// parseTime reads a JSON number of unix seconds or a JSON string in RFC 3339.
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
	// What is left is a number with an exponent.
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(f >= 1 && f <= maxSecond) {
		return 0, 0, false
	}
	whole, part := math.Modf(f)
	return int64(whole), int32(part * 1e9), true
}

// unescape gives back the bytes that the server received: Apache writes \" \\
// \b \n \r \t \v and \xhh, nginx \xHH. A backslash before anything else stands
// for itself. It allocates only where there is a backslash.
func unescape(s string) string {
	i := strings.IndexByte(s, '\\')
	if i < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	b = append(b, s[:i]...)
	for i < len(s) {
		c, n := unescapeOne(s[i:])
		b = append(b, c)
		i += n
	}
	return string(b)
}

// unescapeOne decodes the first byte of s and says how long its spelling is.
func unescapeOne(s string) (byte, int) {
	if s[0] != '\\' || len(s) < 2 {
		return s[0], 1
	}
	if i := strings.IndexByte(`"\bnrtv`, s[1]); i >= 0 {
		return "\"\\\b\n\r\t\v"[i], 2
	}
	if s[1] == 'x' && len(s) >= 4 {
		if hi, lo := hexDigit(s[2]), hexDigit(s[3]); hi >= 0 && lo >= 0 {
			return byte(hi<<4 | lo), 4
		}
	}
	return s[0], 1
}

// hexDigit is -1 for what is none.
func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
