package respcache

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Uses of a request's field by the cache. Fields that are neither in the table nor listed by the rule make the request
// bypass the cache, because frameworks may react to them.
const (
	unknown   = iota
	dropped   // no fetch carries it, so no stored response depends on it
	accepted  // a fetch carries a normal form
	keyed     // it is part of the key
	address   // of a client; a fetch carries it if it holds nothing but addresses
	condition // a fetch has conditions of its own
)

var fieldUses = func() map[string]int {
	uses := map[string]int{}
	for use, names := range map[int][]string{dropped: droppedFields, accepted: acceptFields, keyed: forwarding,
		address: addressFields, condition: conditional} {
		for _, name := range names {
			uses[name] = use
		}
	}
	return uses
}()

// acceptFields state which responses a client can read. A response depends on Accept and Accept-Language if its Vary
// names them. The key always has the Accept-Encoding.
var acceptFields = []string{"Accept", "Accept-Encoding", "Accept-Language"}

// droppedFields are fields that clients and gateways usually send, and without which a response is as good for all
// clients: preferences, traces, and fields about one connection.
var droppedFields = []string{
	"Accept-Charset", "Cache-Control", "Connection", "Content-Length",
	"Content-Type", "Dnt", "Keep-Alive", "Pragma", "Priority", "Proxy-Connection", "Referer", "Save-Data", "Te",
	"Upgrade-Insecure-Requests", "User-Agent", "Via",
	"B3", "Baggage", "Cdn-Loop", "Cf-Ray", "Sentry-Trace", "Traceparent", "Tracestate", "Uber-Trace-Id", "X-Amz-Cf-Id",
	"X-Amzn-Trace-Id", "X-B3-Flags", "X-B3-Parentspanid", "X-B3-Sampled", "X-B3-Spanid", "X-B3-Traceid",
	"X-Cloud-Trace-Context", "X-Correlation-Id", "X-Envoy-Attempt-Count", "X-Envoy-Expected-Rq-Timeout-Ms",
	"X-Queue-Start", "X-Request-Id", "X-Request-Start", "X-Varnish",
	"Cookie", // if the rule has cookies: strip; otherwise the request bypasses the cache
}

// forwarding are the fields in which gateways name the origin that a client asked.
var forwarding = []string{
	"Cf-Ipcountry", "Cf-Visitor", "Cloudfront-Forwarded-Proto", "Forwarded", "Front-End-Https", "X-Forwarded-Host",
	"X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Proto", "X-Forwarded-Scheme", "X-Forwarded-Server",
	"X-Forwarded-Ssl", "X-Scheme",
}

// addressFields name the client. Without them an upstream would take each fetch for a request of this machine, which it
// may trust.
var addressFields = []string{
	"Cf-Connecting-Ip", "Fastly-Client-Ip", "Fly-Client-Ip", "True-Client-Ip", "X-Client-Ip", "X-Cluster-Client-Ip",
	"X-Envoy-External-Address", "X-Forwarded-For", "X-Original-Forwarded-For", "X-Real-Ip",
}

// useOf returns the use of a request's field.
func useOf(name string) int {
	use, ok := fieldUses[name]
	if !ok && strings.HasPrefix(name, "Sec-") {
		return dropped // scripts cannot set them; WebSocket sends its Sec- fields with Upgrade
	}
	return use
}

// unknownField returns a field that makes a request bypass the cache, or "" if it has none.
func unknownField(h http.Header, s *hottype.CachePolicy) string {
	for name, values := range h {
		if len(values) == 0 || slices.Contains(s.Vary, name) {
			continue
		}
		if use := useOf(name); use == unknown || use == address && !areAddresses(values) {
			return name
		}
	}
	return ""
}

// maxAddresses bounds a field with the addresses of clients and proxies, in bytes.
const maxAddresses = 512

// areAddresses reports whether the values consist of the characters of addresses only, so that no upstream rejects a
// fetch because of them.
func areAddresses(values []string) bool {
	n := 0
	for _, v := range values {
		if n += len(v); n > maxAddresses || strings.Trim(v, "0123456789abcdefABCDEF.:[], ") != "" {
			return false
		}
	}
	return true
}

// agent is the User-Agent of fetches, unless the rule lists that field. Some upstreams reject requests without a
// User-Agent.
const agent = "Mozilla/5.0 (compatible; hotparam)"

// fetchFields returns the fields of a fetch: the fields of r that are part of the key, and addresses. The fields in
// vary are in the normal forms of which the key consists.
func fetchFields(r *http.Request, vary []string) http.Header {
	h := http.Header{"User-Agent": {agent}}
	for _, names := range [][]string{forwarding, addressFields} {
		for _, name := range names {
			if values := r.Header[name]; len(values) > 0 {
				h[name] = values
			}
		}
	}
	for _, name := range vary {
		delete(h, name)
		if values := r.Header[name]; len(values) > 0 {
			h[name] = []string{normalForm(name, values)}
		}
	}
	h["Accept-Encoding"] = []string{normalCodings(codingsOf(r.Header["Accept-Encoding"]))}
	return h
}

// firstFields returns the fields of a fetch that streams to the client of r. They include the fields by which responses
// of the target may differ: the fields that the rule lists, and the harmless members of Accept and Accept-Language. An
// upstream may obey the latter two without naming them in Vary, so asks lists which of the two ask for something in
// particular.
func firstFields(r *http.Request, vary, listed []string) (h http.Header, asks []string) {
	h = fetchFields(r, append(slices.Clone(vary), listed...))
	for _, name := range acceptFields {
		if h[name] != nil {
			continue
		}
		if list := harmlessMembers(normalForm(name, r.Header[name])); list != "" {
			h[name] = []string{list}
			if list != "*/*" && list != "*" {
				asks = append(asks, name)
			}
		}
	}
	return h, asks
}

// maxAccepted bounds the Accept and the Accept-Language of a fetch whose key does not have them, in bytes.
const maxAccepted = 512

// harmlessMembers returns the members of a list that consist of letters, digits and the punctuation of types, languages
// and weights, as far as they fit. An upstream may repeat them in a response for others.
func harmlessMembers(list string) string {
	kept := ""
	for _, member := range membersOf([]string{list}) {
		if strings.Trim(member, acceptChars) != "" || len(kept)+len(member)+2 > maxAccepted {
			continue
		}
		if kept != "" {
			kept += ", "
		}
		kept += member
	}
	return kept
}

const acceptChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789*/+-._;= "

// hasAlteredField reports whether r has one of the fields in vary, which a response names, with another meaning than
// the fetch that was made of r.
func (f *fetch) hasAlteredField(r *http.Request, vary []string) bool {
	carried, _ := firstFields(r, f.vary, f.serve.Vary)
	asked := fetchFields(r, vary)
	return slices.ContainsFunc(vary, func(name string) bool {
		return len(r.Header[name]) > 0 && !slices.Equal(carried[name], asked[name])
	})
}

// normalForm returns a field as one line, in a form that all its spellings of the same meaning share. Several lines are
// one list (RFC 9110 section 5.3). Space around members means nothing. Their order in Accept-Language means nothing
// either, because weights express the preference.
func normalForm(name string, values []string) string {
	members := membersOf(values)
	if name == "Accept-Language" {
		for i, m := range members {
			members[i] = normalLanguage(m)
		}
		slices.Sort(members)
		slices.SortStableFunc(members, func(a, b string) int { return cmp.Compare(weightOf(b), weightOf(a)) })
	}
	return strings.Join(members, ", ")
}

// membersOf splits the lines of a list at commas outside quoted strings.
func membersOf(lines []string) (members []string) {
	for _, line := range lines {
		for line != "" {
			var m string
			m, line = httplimit.CutOutsideQuotes(line, ',')
			if m = strings.Trim(m, " \t"); m != "" {
				members = append(members, m)
			}
		}
	}
	return members
}

// normalLanguage writes a member of Accept-Language as browsers do: "de", "en-US;q=0.8", "zh-Hant-TW".
func normalLanguage(member string) string {
	tag, weight, _ := strings.Cut(member, ";")
	parts := strings.Split(strings.ToLower(strings.Trim(tag, " \t")), "-")
	for i, p := range parts[1:] {
		switch len(p) {
		case 2:
			parts[i+1] = strings.ToUpper(p)
		case 4:
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	if weight = strings.ToLower(strings.Trim(weight, " \t")); weight == "" || weight == "q=1" || weight == "q=1.0" {
		return strings.Join(parts, "-")
	}
	return strings.Join(parts, "-") + ";" + weight
}

// weightOf returns the weight of a member of a list, or 1 without one.
func weightOf(member string) float64 {
	_, text, ok := strings.Cut(member, ";q=")
	if !ok {
		return 1
	}
	q, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return q
}
