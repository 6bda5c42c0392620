package accesslog

import (
	"encoding/json"
	"strings"
)

// wrapping is the form in which a log has its lines, if a program between the server and the log added something: the
// runtime of a container, a collector of logs, or grep. It is the same for all lines of a log, so that it is found in
// the first ones and nothing that a client writes can change it.
type wrapping struct {
	// field is the field of a JSON object that holds the line, or exported, or "" if lines are not in objects.
	field string
	// words is the number of words before the line, and colons the number of texts with a colon after these words, such
	// as the name of a file.
	words, colons int
	// headless is true if lines have no head of syslog. Otherwise a head is cut from each line that has it.
	headless bool
	// forwarded is true if a line of Combined begins with X-Forwarded-For, before the address of the peer.
	forwarded bool
	// host is the virtual host of the line that was unwrapped last: the word before it, if it looks like one.
	host string
}

// exported marks the export format of systemd's journal: one field a line, and the log's line in MESSAGE.
const exported = "MESSAGE="

// wrappers are the fields of JSON objects in which programs keep a line: the json-file driver of docker, fluent-bit,
// journalctl -o json, logcli -o jsonl, Filebeat and Google Cloud.
var wrappers = []string{"log", "MESSAGE", "line", "message", "textPayload"}

// unwrap returns the line that the server wrote.
func (w *wrapping) unwrap(line string) (string, error) {
	switch w.field {
	case "":
	case exported:
		var ok bool
		if line, ok = strings.CutPrefix(line, exported); !ok {
			return "", ErrSkip
		}
	default:
		if isBlank(line) {
			return "", ErrSkip
		}
		var ok bool
		if line, ok = unwrapJSON(line, w.field); !ok {
			return "", &Error{"line must be a JSON object with " + w.field, line}
		}
	}
	if !w.headless {
		if rest, ok := cutSyslog(line); ok {
			line = rest
		}
	}
	if w.words == 0 && w.colons == 0 {
		return strings.TrimPrefix(line, " "), nil
	}
	rest, ok := w.cutWords(line)
	if !ok {
		return "", &Error{"line must have the words before it that the first lines have", line}
	}
	return rest, nil
}

// cutWords cuts the words before a line.
func (w *wrapping) cutWords(line string) (rest string, ok bool) {
	rest = strings.TrimLeft(line, " \t")
	word := ""
	for range w.words {
		i := strings.IndexAny(rest, " \t")
		if i < 0 {
			return "", false
		}
		word, rest = rest[:i], strings.TrimLeft(rest[i:], " \t")
	}
	w.host = virtualHost(word)
	for range w.colons {
		i := strings.IndexAny(rest, ": ")
		if i < 0 || rest[i] == ' ' {
			return "", false
		}
		rest = rest[i+1:]
	}
	return rest, true
}

// virtualHost returns the host in a word before a line, or "" if the word is something else.
func virtualHost(word string) string {
	host := trimPort(word)
	switch {
	case isHostName(host), isAddress(host) && host != "-":
		return host
	case host != word && strings.IndexByte(host, ':') < 0 && !strings.HasSuffix(word, ":"):
		return host
	}
	return ""
}

// unwrapJSON returns the text of a field of an object, without the line end that docker keeps.
func unwrapJSON(line, field string) (string, bool) {
	var fields map[string]json.RawMessage
	var text string
	if json.Unmarshal([]byte(line), &fields) != nil || json.Unmarshal(fields[field], &text) != nil {
		return "", false
	}
	return strings.TrimRight(text, "\r\n"), true
}

// cutSyslog cuts the head of RFC 3164 or RFC 5424, with or without a priority, from a line.
func cutSyslog(line string) (rest string, ok bool) {
	rest = line
	if rest != "" && rest[0] == '<' {
		i := strings.IndexByte(rest, '>')
		if i < 2 || i > 4 || parseNumber(rest[1:i]) < 0 {
			return line, false
		}
		if rest = rest[i+1:]; strings.HasPrefix(rest, "1 ") {
			return cutStructured(rest[2:])
		}
	}
	switch {
	case len(rest) > 16 && rest[3] == ' ' && rest[6] == ' ' && rest[9] == ':' && rest[12] == ':' && rest[15] == ' ' &&
		monthNumber(rest[:3]) > 0:
		rest = rest[16:]
	case len(rest) > 20 && rest[4] == '-' && rest[10] == 'T' && rest[13] == ':':
		if _, rest, ok = strings.Cut(rest, " "); !ok {
			return line, false
		}
	default:
		return line, false
	}
	// HOST TAG[PID]: MESSAGE. nginx may omit the host.
	head, message, ok := strings.Cut(rest, ": ")
	if !ok || len(head) > 128 || strings.Count(head, " ") > 1 || strings.ContainsAny(head, "\"\t[{") &&
		!strings.HasSuffix(head, "]") {
		return line, false
	}
	return strings.TrimPrefix(strings.TrimLeft(message, " "), "@cee:"), true
}

// cutStructured cuts TIME HOST APP PROCID MSGID and structured data.
func cutStructured(s string) (rest string, ok bool) {
	for range 5 {
		if _, s, ok = strings.Cut(s, " "); !ok {
			return s, false
		}
	}
	for strings.HasPrefix(s, "[") {
		i := 1
		for quoted := false; i < len(s) && (quoted || s[i] != ']'); i++ {
			switch s[i] {
			case '\\':
				i++
			case '"':
				quoted = !quoted
			}
		}
		s = s[min(i+1, len(s)):]
	}
	s = strings.TrimPrefix(s, "-")
	return strings.TrimPrefix(strings.TrimPrefix(s, " "), "\xef\xbb\xbf"), true
}
