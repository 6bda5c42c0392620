package respcache

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// answer is a complete response of the handler that other clients may get too. It is immutable.
type answer struct {
	status   int
	fields   []field // sent to every client; the values are shared by all of them
	body     []byte
	etag     string
	modified time.Time // of Last-Modified; zero if unknown
	memory   *memory   // shared with its slices, which have the same body; nil if not counted
	vary     []string  // the listed fields that it names in Vary

	// unsure is true if the response is an error to a request that had more fields than the key, or may depend on an
	// Accept or Accept-Language that its Vary does not name. A plain fetch has to confirm it at once.
	unsure bool
	// silent is true if the response came with neither Cache-Control nor Vary.
	silent bool

	received time.Time
	age      time.Duration // when it was received
	// The times since received until which the answer is fresh, may be served stale, and may be served on errors, in
	// ascending order.
	fresh, stale, onError time.Duration
}

// overhead is the approximate size of an answer without its body and its fields.
const overhead = 768

func (a *answer) byteSize() int64 {
	n := int64(overhead + len(a.body))
	for _, f := range a.fields {
		n += int64(len(f.name) + 40)
		for _, v := range f.values {
			n += int64(len(v) + 16)
		}
	}
	return n
}

// residentTime returns how long the cache has had the answer. It is negative if the clock went back, so that no answer
// becomes fresh again.
func (a *answer) residentTime(now time.Time) time.Duration { return now.Sub(a.received) }

func isWithin(resident, bound time.Duration) bool { return resident >= 0 && resident < bound }

// Reasons for which a response is not stored, for the counters and the Cache-Status field.
const (
	whyStatus    = "status"
	whyDirective = "cache-control"
	whySetCookie = "set-cookie"
	whyVary      = "vary"
	whyStream    = "stream"
	whyExpired   = "expired"
	whySize      = "max_body"
	whyMemory    = "memory"
)

// heuristic holds the statuses of responses that may be stored although they state no lifetime (RFC 9110 section 15.1).
var heuristic = []int{200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501}

// storableAnswer decides whether a handler's response may be stored. It returns the response as an answer without its
// body, or nil and the reason why it must not be stored.
func storableAnswer(status int, h http.Header, s *hottype.CachePolicy, now time.Time) (*answer, string) {
	d, targeted := directivesOf(h)
	understood := d.has("must-understand") && http.StatusText(status) != ""
	vary, listed := varyOf(h, s)
	switch {
	case status < 200 || status > 599 || status == http.StatusNotModified:
		return nil, whyStatus
	case d.has("private"), d.has("no-store") && !understood, d.has("must-understand") && !understood:
		return nil, whyDirective
	case len(h["Set-Cookie"]) > 0:
		return nil, whySetCookie
	case !listed:
		return nil, whyVary
	case len(h["Trailer"]) > 0, strings.HasPrefix(h.Get("Content-Type"), "text/event-stream"):
		return nil, whyStream
	}
	date, err := parseDate(h.Get("Date"))
	if err != nil {
		date = now
	}
	a := &answer{status: status, vary: vary, received: now, etag: h.Get("Etag")}
	a.age = max(ageOf(h), now.Sub(date), 0)
	lifetime := d.freshnessLifetime(h, date, targeted)
	if lifetime == absent {
		if !d.has("public") && !slices.Contains(heuristic, status) {
			return nil, whyStatus
		}
		lifetime = a.age + s.TTL // the time for which it is kept here, whenever it was made
	}
	a.modified, _ = http.ParseTime(h.Get("Last-Modified"))
	a.silent = len(h["Cache-Control"])+len(h[targetedField])+len(h["Vary"]) == 0
	a.fields = fieldsOf(h, now)
	if a.fresh = lifetime - a.age; a.fresh <= 0 || d.has("no-cache") {
		a.fresh = 0
		if !a.hasValidator() {
			return nil, whyExpired
		}
		return a, ""
	}
	a.stale, a.onError = a.fresh, a.fresh
	if !d.has("must-revalidate") && !d.has("proxy-revalidate") && !d.has("s-maxage") { // which implies the second
		a.stale += lifetimeOr(d.lifetimeOf("stale-while-revalidate"), s.Stale)
		a.onError = max(a.stale, a.fresh+lifetimeOr(d.lifetimeOf("stale-if-error"), s.StaleIfError))
	}
	return a, ""
}

// hasValidator reports whether the handler can confirm that the response has not changed.
func (a *answer) hasValidator() bool { return a.etag != "" || !a.modified.IsZero() }

// mustRevalidate reports whether each request has to have the response validated for itself: no client
// may wait for the answer to another request.
func (a *answer) mustRevalidate() bool { return a.fresh <= 0 }

// validFor is how long an answer is kept for validation after it may no longer be served.
const validFor = time.Minute

// isUsable reports whether an answer may still be served or validated.
func (a *answer) isUsable(now time.Time) bool {
	until := a.onError
	if a.hasValidator() {
		until += validFor
	}
	return isWithin(a.residentTime(now), until)
}

func lifetimeOr(d, other time.Duration) time.Duration {
	if d == absent {
		return other
	}
	return d
}

// varyOf returns the fields of Vary, sorted, and whether the rule lists all of them. Accept-Encoding is not among them,
// because it is part of each key.
func varyOf(h http.Header, s *hottype.CachePolicy) (names []string, listed bool) {
	names = varyNames(h)
	return names, containsAll(s.Vary, names)
}

// varyNames returns the fields of Vary but Accept-Encoding, sorted.
func varyNames(h http.Header) (names []string) {
	for _, line := range h["Vary"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if name != "" && name != "Accept-Encoding" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// setBody completes the answer with its body. It copies a body whose unused memory exceeds a quarter of its length.
func (a *answer) setBody(body []byte) {
	if cap(body)-len(body) > len(body)/4 {
		body = bytes.Clone(body)
	}
	a.body = body
	if a.status != http.StatusNoContent {
		a.fields = append(a.fields, fieldOf("Content-Length", []string{strconv.Itoa(len(body))}))
	}
}

// cutFromLarger returns the part of the entry, cut from a fresh larger part of the same variant, or nil if there is
// none. It needs mu.
func (e *entry) cutFromLarger(now time.Time) *answer {
	larger := e.resource.part
	if e.part == "" || e.answer != nil || larger == nil || larger.answer == nil ||
		strings.TrimSuffix(larger.variant, larger.part) != strings.TrimSuffix(e.variant, e.part) ||
		!isWithin(larger.answer.residentTime(now), larger.answer.fresh) {
		return nil
	}
	return larger.answer.cutPart(e.part)
}

// cutPart returns a part of a partial response by its Range, or nil if part is not one range within it.
func (a *answer) cutPart(part string) *answer {
	var first, last, size, from, to int64
	whole := slices.IndexFunc(a.fields, func(f field) bool { return f.name == "Content-Range" })
	if whole < 0 {
		return nil
	}
	if n, _ := fmt.Sscanf(a.fields[whole].values[0], "bytes %d-%d/%d", &first, &last, &size); n != 3 {
		return nil
	}
	if _, err := fmt.Sscanf(part, "bytes=%d-%d", &from, &to); err != nil || from < first || to < from ||
		to-first >= int64(len(a.body)) || part != fmt.Sprintf("bytes=%d-%d", from, to) {
		return nil
	}
	s := *a
	s.fields = slices.DeleteFunc(slices.Clone(a.fields), func(f field) bool { return f.name == "Content-Length" })
	s.fields[whole].values = []string{fmt.Sprintf("bytes %d-%d/%d", from, to, size)}
	s.setBody(a.body[from-first : to-first+1 : to-first+1])
	return &s
}

// bodyHeaders are the fields that a 304 does not change. They describe the stored bytes, which the 304 has confirmed,
// whatever values it has for them.
var bodyHeaders = []string{"Content-Encoding", "Content-Length", "Content-Md5", "Content-Range", "Etag"}

// freshenedCopy returns the answer, received now, with the fields of a 304 in place of its own (RFC 9111 section 3.2),
// or the reason why the result must not be stored.
func (a *answer) freshenedCopy(h http.Header, s *hottype.CachePolicy, now time.Time) (*answer, string) {
	merged := http.Header{}
	for _, f := range a.fields {
		merged[f.name] = f.values
	}
	delete(merged, "Date") // replaced by the Date of the 304, or now
	for name, values := range h {
		if len(values) > 0 && !slices.Contains(bodyHeaders, name) {
			merged[name] = values
		}
	}
	next, why := storableAnswer(a.status, merged, s, now)
	if next != nil {
		next.setBody(a.body)
	}
	return next, why
}

// conditional are the fields that ask for a response under a condition, or for a part.
var conditional = []string{"If-None-Match", "If-Modified-Since", "Range", "If-Range"}

func isConditional(h http.Header) bool {
	return len(h["If-None-Match"])+len(h["If-Modified-Since"])+len(h["Range"]) > 0
}

// write answers a request. The fields cost no copy, the body is one Write.
func (a *answer) write(w http.ResponseWriter, r *http.Request, now time.Time, status []string) {
	a.memory.retain()
	defer a.memory.release()
	h := w.Header()
	for i := range a.fields {
		a.fields[i].addTo(h)
	}
	h["Age"] = ageField(a.age + max(a.residentTime(now), 0))
	h["Cache-Status"] = status
	if a.status == http.StatusOK && isConditional(r.Header) {
		delete(h, "Content-Length")
		http.ServeContent(w, r, "", a.modified, bytes.NewReader(a.body))
		return
	}
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.body) // a client who left does not need the rest
	}
}
