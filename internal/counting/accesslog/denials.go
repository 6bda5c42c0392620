package accesslog

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Denials is the format of the log of denials, in either form. A line without a target has a target that is made from
// its key. Lines that count lines, and lines without a request, hold no request.
const Denials Format = "denials"

// DenialForm is the form of the lines of a log of denials.
type DenialForm string

// The forms of a log of denials.
const (
	DenialJSON   DenialForm = "json"
	DenialLogfmt DenialForm = "logfmt"
)

// Denial is a denied request as a line of a log.
type Denial struct {
	At                                             time.Time
	Client                                         hottype.Client
	Shadow                                         bool // the request was allowed, because the limit only watches
	Reason, Rule, Class, Method, Host, Key, Target string
	Limit                                          int64
	Retry                                          time.Duration // hottype.Never is written as -1
}

// Append appends the line of a denial, with its line end. First come the fields that no client writes.
func (f DenialForm) Append(line []byte, d *Denial) []byte {
	w := f.beginLine(line, d.At)
	w.addText("client", d.Client.String())
	w.addPlain("shadow", strconv.FormatBool(d.Shadow))
	w.addText("reason", d.Reason)
	w.addText("rule", d.Rule)
	w.addPlain("limit", strconv.FormatInt(d.Limit, 10))
	w.addPlain("retry", seconds(d.Retry))
	w.addText("class", d.Class)
	w.addText("method", d.Method)
	w.addText("host", d.Host)
	w.addText("key", d.Key)
	w.addText("target", d.Target)
	return w.endLine()
}

// AppendLeftOut appends the line that counts n denials that have no line, with its line end.
func (f DenialForm) AppendLeftOut(line []byte, at time.Time, n uint64) []byte {
	w := f.beginLine(line, at)
	w.addPlain("left_out", strconv.FormatUint(n, 10))
	return w.endLine()
}

// seconds returns a wait in seconds, rounded up to a millisecond, or -1 for a wait that does not end.
func seconds(wait time.Duration) string {
	if wait < 0 {
		return "-1"
	}
	return strconv.FormatFloat(float64((wait+time.Millisecond-1)/time.Millisecond)/1000, 'f', -1, 64)
}

// denialTime has a fixed number of digits, so that lines can be sorted as text.
const denialTime = "2006-01-02T15:04:05.000000Z"

// lineWriter writes the fields of one line.
type lineWriter struct {
	line []byte
	form DenialForm
}

func (f DenialForm) beginLine(line []byte, at time.Time) lineWriter {
	w := lineWriter{line, f}
	if f == DenialJSON {
		w.line = append(w.line, `{"time":"`...)
		w.line = append(at.UTC().AppendFormat(w.line, denialTime), '"')
		return w
	}
	w.line = at.UTC().AppendFormat(append(w.line, "time="...), denialTime)
	return w
}

func (w *lineWriter) endLine() []byte {
	if w.form == DenialJSON {
		w.line = append(w.line, '}')
	}
	return append(w.line, '\n')
}

func (w *lineWriter) addName(name string) {
	if w.form == DenialJSON {
		w.line = append(append(append(w.line, `,"`...), name...), `":`...)
		return
	}
	w.line = append(append(append(w.line, ' '), name...), '=')
}

// addPlain adds a number or a bool.
func (w *lineWriter) addPlain(name, value string) {
	w.addName(name)
	w.line = append(w.line, value...)
}

func (w *lineWriter) addText(name, value string) {
	w.addName(name)
	if w.form == DenialLogfmt && isBareWord(value) {
		w.line = append(w.line, value...)
		return
	}
	w.line = appendQuoted(w.line, value)
}

// isBareWord reports whether a value of logfmt needs no quotes.
func isBareWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\' {
			return false
		}
	}
	return s != ""
}

// appendQuoted appends a text as a string of JSON, which logfmt has too. All characters that are not printable are
// escaped, so that a text can neither end its line nor control a terminal. Bytes that are not UTF-8 become U+FFFD.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r != utf8.RuneError && unicode.IsPrint(r):
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = appendEscape(appendEscape(b, high), low)
		default:
			b = appendEscape(b, r)
		}
	}
	return append(b, '"')
}

// appendEscape appends \u and the four digits of a rune.
func appendEscape(b []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// denialLine holds the fields of a line that have a meaning for a reader of requests.
type denialLine struct {
	Time                              time.Time
	Client, Method, Host, Key, Target string
	Shadow                            *bool
	LeftOut                           *uint64 `json:"left_out"`
}

// parseDenial parses a line in either form.
func parseDenial(line string, e *Entry) error {
	var d denialLine
	ok := false
	switch {
	case isBlank(line):
		return ErrSkip
	case line[0] == '{':
		ok = json.Unmarshal([]byte(line), &d) == nil
	default:
		ok = d.parseLogfmt(line)
	}
	if e.Second, e.Nanos = d.Time.Unix(), int32(d.Time.Nanosecond()); !ok || e.Second <= 0 || e.Second > maxSecond ||
		d.Shadow == nil && d.LeftOut == nil {
		return &Error{"line must be a denial, in JSON or logfmt", line}
	}
	if d.Target == "" && d.Key != "" {
		d.Target = "/" + d.Key
	}
	if d.LeftOut != nil || d.Target == "" {
		return ErrSkip
	}
	e.Request.Host = d.Host
	return e.setRequest(d.Client, cmp.Or(d.Method, "GET"), d.Target)
}

// parseLogfmt parses pairs NAME=VALUE that one space separates, and reports whether the line has only such pairs.
func (d *denialLine) parseLogfmt(line string) bool {
	for rest := line; ; {
		name, after, ok := strings.Cut(rest, "=")
		if !ok || strings.ContainsAny(name, ` "`) {
			return false
		}
		value, after, ok := cutLogfmt(after)
		if !ok || !d.setField(name, value) {
			return false
		}
		if after == "" {
			return true
		}
		if rest, ok = strings.CutPrefix(after, " "); !ok {
			return false
		}
	}
}

// cutLogfmt cuts a word, or a text in quotes, from the beginning of s.
func cutLogfmt(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexByte(s, ' ')
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], true
	}
	end := closingQuote(s[1:])
	if end < 0 {
		return "", s, false
	}
	text := s[:end+2]
	return value, s[len(text):], json.Unmarshal([]byte(text), &value) == nil
}

// setField sets a field of a line, and reports whether the value is one of the field. Other fields are ignored.
func (d *denialLine) setField(name, value string) (ok bool) {
	var err error
	switch name {
	case "time":
		d.Time, err = time.Parse(time.RFC3339, value)
	case "client":
		d.Client = value
	case "shadow":
		d.Shadow = new(bool)
		*d.Shadow, err = strconv.ParseBool(value)
	case "method":
		d.Method = value
	case "host":
		d.Host = value
	case "key":
		d.Key = value
	case "target":
		d.Target = value
	case "left_out":
		d.LeftOut = new(uint64)
		*d.LeftOut, err = strconv.ParseUint(value, 10, 64)
	}
	return err == nil
}
