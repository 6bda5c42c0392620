package accesslog

import "strings"

// parseEvent reads `unix_seconds client method target`, separated by tabs.
func parseEvent(line string, e *Entry) error {
	if blank(line) || line[0] == '#' {
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

// setRequest takes the fields of the formats that name them.
func (e *Entry) setRequest(who, method, target string) error {
	switch {
	case who == "":
		return &Error{"client must be an address, a name or -", who}
	case !isToken(method):
		return &Error{"method must be a word", method}
	case target == "":
		return &Error{"target must be a path", target}
	}
	e.Request.Client = client(who)
	e.Request.Method, e.Request.Target = method, target
	return nil
}

// blank tells whether a line holds nothing but spaces and tabs.
func blank(s string) bool { return strings.TrimLeft(s, " \t") == "" }
