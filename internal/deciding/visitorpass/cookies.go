package visitorpass

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// cookiePrefix begins the names of all cookies of passes, and hostPrefix stands before it where cookies are secure:
	// browsers then accept the cookie only from the host itself.
	cookiePrefix, hostPrefix = "hotparam_", "__Host-"
	// classCookie is the name of the cookie of a class pass, and "=".
	classCookie = cookiePrefix + "class="
	hexDigits   = "0123456789abcdef"
	// maxValue bounds the value of a cookie that is read.
	maxValue = maxClass + 1 + encodedSize
)

// SetCookie returns the value of a Set-Cookie field for a pass, "NAME=VALUE", that a browser keeps for life. secure is
// true if the client uses TLS.
func SetCookie(pair string, secure bool, life time.Duration) string {
	attributes := "; Path=/; Max-Age=" + strconv.FormatInt(int64(life/time.Second), 10) + "; HttpOnly; SameSite=Lax"
	if secure {
		return hostPrefix + pair + attributes + "; Secure"
	}
	return pair + attributes
}

// DeleteClass returns the value of a Set-Cookie field that deletes the class pass.
func DeleteClass(secure bool) string { return SetCookie(classCookie, secure, 0) }

// findCookies returns the values of the first cookie __Host-NAME and of the first cookie NAME, or "" for a cookie that
// is absent. named is NAME and "=".
func findCookies(cookies, named string) (values [2]string) {
	for at := 0; values[0] == "" || values[1] == ""; {
		i := strings.Index(cookies[at:], named)
		if i < 0 {
			break
		}
		before, value := cookies[:at+i], cookies[at+i+len(named):]
		at += i + len(named)
		which := 1
		if shorter, ok := strings.CutSuffix(before, hostPrefix); ok {
			before, which = shorter, 0
		}
		if values[which] != "" || before != "" && !isSeparator(before[len(before)-1]) {
			continue
		}
		end := 0
		for end < len(value) && end <= maxValue && !isSeparator(value[end]) {
			end++
		}
		values[which] = value[:end]
	}
	return values
}

// isSeparator reports whether c stands between two cookies. It may be a comma, because some gateways join the lines of
// a field as they join a list.
func isSeparator(c byte) bool { return c == ';' || c == ' ' || c == ',' || c == '\t' }

// Strip removes the cookies of passes from the Cookie lines of a request's header, and the field if nothing is left. It
// reports whether it removed any. It keeps the bytes of all other cookies. It allocates nothing if there is nothing to
// remove.
func Strip(header map[string][]string) bool {
	lines := header["Cookie"]
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, cookiePrefix) }) {
		return false
	}
	stripped, kept := false, make([]string, 0, len(lines))
	for _, line := range lines {
		rest, removed := stripLine(line)
		stripped = stripped || removed
		if !removed || strings.Trim(rest, "; \t") != "" {
			kept = append(kept, rest)
		}
	}
	switch {
	case !stripped:
	case len(kept) == 0:
		delete(header, "Cookie")
	default:
		header["Cookie"] = kept
	}
	return stripped
}

// stripLine returns a line without the cookies of passes. Each other cookie keeps the separator before it.
func stripLine(line string) (rest string, removed bool) {
	if !strings.Contains(line, cookiePrefix) {
		return line, false
	}
	var kept strings.Builder
	for line != "" {
		end := len(line)
		if i := strings.IndexByte(line[1:], ';'); i >= 0 {
			end = 1 + i
		}
		cookie := line[:end]
		switch line = line[end:]; {
		case isPass(cookie):
			removed = true
		case removed && kept.Len() == 0:
			kept.WriteString(strings.TrimLeft(cookie, "; \t"))
		default:
			kept.WriteString(cookie)
		}
	}
	return kept.String(), removed
}

// isPass reports whether a cookie, with the separator before it, is one that this package sets.
func isPass(cookie string) bool {
	name, _, ok := strings.Cut(strings.TrimLeft(cookie, "; \t"), "=")
	name, own := strings.CutPrefix(strings.TrimPrefix(name, hostPrefix), cookiePrefix)
	return ok && own && (name == "class" || len(name) == 4 && strings.Trim(name, hexDigits) == "")
}
