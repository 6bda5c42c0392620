package edge

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/hotparam/pipeline/internal/rules"
)

// noKey is the key of requests that no rule counts. It is needed because a line of a map has a value, and no rule has
// that name.
const noKey = "-"

// HAProxy returns a map of regular expressions (map_regm) by which HAProxy makes the keys of plain targets itself.
// HAProxy looks up method, host and URL, with a space between them. It has to ask about a request that no line matches.
//
// Comments carry the data that deploy/haproxy/edge.lua reads: the version of the rules, and the clients to which no
// limit applies.
func HAProxy(set *rules.Set) string {
	return "# rules " + Version(set) + "\n" + haproxyKeys(set)
}

func haproxyKeys(set *rules.Set) string {
	var b strings.Builder
	for _, p := range set.IP.Exempt {
		b.WriteString("# exempt " + exemptNetwork(p).String() + "\n")
	}
	const any = `[^ ]*+ `
	for _, l := range set.Plain().Lines {
		key, ok := numberGroups(l.Key)
		if !ok {
			continue // the line for the rest of its rule asks
		}
		pattern := "^" + cmp.Or(l.Method, any) + cmp.Or(l.Host, any) + haproxyOrigin + l.Target
		pattern = namedGroup.ReplaceAllString(pattern, "(")
		b.WriteString(strings.ReplaceAll(pattern, " ", `\x20`) + " " + cmp.Or(key, noKey) + "\n")
	}
	return b.String()
}

// haproxyOrigin is the pattern of scheme and host, which URLs of HTTP/2 and requests to proxies have before the target.
const haproxyOrigin = `(?:[a-zA-Z][a-zA-Z0-9+.-]*+://[^/?# ]*+)?+`

var (
	namedGroup = regexp.MustCompile(`\(\?<hp_\d+>`)
	reference  = regexp.MustCompile(`\$\{hp_(\d+)\}`)
)

// numberGroups returns a key with the numbers of groups, and false if HAProxy does not support as many groups.
func numberGroups(key string) (string, bool) {
	const most = "8" // of names, which begin at 0
	for _, r := range reference.FindAllStringSubmatch(key, -1) {
		if len(r[1]) > 1 || r[1] > most {
			return "", false
		}
	}
	return reference.ReplaceAllStringFunc(key, func(r string) string {
		return `\` + string(r[len("${hp_")]+1)
	}), true
}
