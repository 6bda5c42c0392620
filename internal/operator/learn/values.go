package learn

import (
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/detection/heavyhitters"
)

// distinct counts different hashes: exactly up to maxValues of them, and above that by a sample that is halved whenever
// it is full (Flajolet, "On adaptive sampling", 1990), with a standard error of about 2 %. It holds a V for each hash
// in the sample.
type distinct[V any] struct {
	held map[uint64]*V
	skip uint64 // hashes with any of these bits are not in the sample
}

// add adds a hash, and returns the value that is held for it, or nil if the hash is not in the sample.
func (d *distinct[V]) add(h uint64) *V {
	if h&d.skip != 0 {
		return nil
	}
	v := d.held[h]
	if v != nil {
		return v
	}
	if d.held == nil {
		d.held = make(map[uint64]*V)
	}
	v = new(V)
	d.held[h] = v
	for len(d.held) > maxValues {
		d.skip = d.skip<<1 | 1
		for h := range d.held {
			if h&d.skip != 0 {
				delete(d.held, h)
			}
		}
	}
	if h&d.skip != 0 {
		return nil
	}
	return v
}

// count returns an estimate of the number of different hashes.
func (d *distinct[V]) count() float64 { return float64(len(d.held)) * float64(d.skip+1) }

// valueUse holds the requests for one value.
type valueUse struct {
	requests    int64
	client      uint32 // of the last request
	shared      bool   // several clients requested it
	first, last int64  // seconds
	number      float64
	isNumber    bool
}

type values struct {
	requests int64
	distinct distinct[valueUse]
	heavy    *heavyhitters.Summary
	top      int64 // lower bound of the requests of the commonest value
	topValue string

	repeats, others int64 // requests for a known value; those after another client's
	clocks          int64 // values near the time of their request
	decimals        int64 // values such as 0.7316 and -12.5
	random          int64 // values that no person types or reads
	bytes           int64
}

func newValues() *values { return &values{heavy: heavyhitters.New(1024)} }

func (v *values) add(value string, client uint32, at time.Time) {
	v.requests++
	v.bytes += int64(len(value))
	h := hash(value)
	if a := v.distinct.add(h); a != nil {
		if a.requests == 0 {
			a.first = at.Unix()
			a.number, a.isNumber = numberOf(value)
		} else {
			v.repeats++
			if a.client != client {
				v.others++
				a.shared = true
			}
		}
		a.requests++
		a.client, a.last = client, at.Unix()
	}
	if len(value) <= 256 && v.heavy.Add(h, value, 1) {
		if n, _ := v.heavy.Bounds(h, value); n > v.top {
			v.top = n
			if value != v.topValue {
				v.topValue = strings.Clone(value)
			}
		}
	}
	v.clocks += oneIf(isClock(value, at))
	v.decimals += oneIf(isDecimal(value))
	v.random += oneIf(isRandom(value))
}

// uniqueShare returns the number of different values as a share of the requests.
func (v *values) uniqueShare() float64 { return v.distinct.count() / float64(max(v.requests, 1)) }

// otherClientShare returns the chance that the next request for a value comes from another client, or 1 if no value was
// repeated.
func (v *values) otherClientShare() float64 {
	if v.repeats == 0 {
		return 1
	}
	return float64(v.others) / float64(v.repeats)
}

// isShared reports whether people share the values: a share of the requests for a known value follow another client's,
// or as many of the values with several requests have several clients. A player sends many reports for one video, so
// that the requests alone show one client.
func (v *values) isShared(share float64) bool {
	repeated, shared := 0, 0
	for _, use := range v.distinct.held {
		repeated += int(oneIf(use.requests > 1))
		shared += int(oneIf(use.shared))
	}
	return v.otherClientShare() >= share || float64(shared) >= share*float64(max(repeated, 1))
}

func (v *values) topShare() float64 { return float64(v.top) / float64(max(v.requests, 1)) }

// isClock reports whether a value is the time of its request, within a day, in seconds or milliseconds.
func isClock(value string, at time.Time) bool {
	if len(value) < 9 || len(value) > 14 {
		return false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return false
	}
	near := func(t int64) bool { return t > at.Unix()-86400 && t < at.Unix()+86400 }
	return near(n) || near(n/1000)
}

// isRandom reports whether a value is long, has no spaces, and consists of digits or of digits among letters, so that
// no person types it.
func isRandom(value string) bool {
	if len(value) < 8 {
		return false
	}
	digits := 0
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_', c == '.', c == '+', c == '/', c == '=':
		default:
			return false
		}
	}
	return digits > 0
}

// segmentsOf splits a path. If the path ends with a slash, the last segment is end. It returns false for paths that a
// pattern cannot express.
func segmentsOf(target string) ([]string, bool) {
	if target == "" || target[0] != '/' {
		return nil, false
	}
	s := strings.Split(target[1:], "/")
	if len(s) > maxDepth {
		return nil, false
	}
	for i, seg := range s {
		switch {
		case seg == "" && i == len(s)-1:
			s[i] = end
		case seg == "", seg == ".", seg == "..", seg == end:
			return nil, false
		}
	}
	return s, true
}

// isValue reports whether a segment looks like a value: a number, a uuid, a hash, a long text, or any text with a byte
// that a pattern cannot contain literally.
func isValue(s string) bool {
	digits, hex := 0, 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !isPlain(c) {
			return true
		}
		if c >= '0' && c <= '9' {
			digits++
		}
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' || c == '-' {
			hex++
		}
	}
	isHash := hex == len(s) && len(s) >= 8 && digits > 0
	return digits == len(s) || len(s) > 40 || isHash || len(s) >= 6 && 2*digits >= len(s)
}

// isPlain reports whether a byte is literal, without escape, in a path, a pattern and YAML.
func isPlain(c byte) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_', c == '.', c == '~':
		return true
	}
	return false
}

func isPlainText(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isPlain(s[i]) {
			return false
		}
	}
	return s != ""
}

// isName reports whether a rule can contain a decoded name of a parameter: it is plain, and is not one of the names
// that are special in rules.
func isName(name string) bool {
	if name == "" || len(name) > 64 || strings.HasPrefix(name, "path.") || strings.HasPrefix(name, "header.") {
		return false
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; !isPlain(c) && c != '[' && c != ']' && c != ':' && c != '$' {
			return false
		}
	}
	return true
}

// assetTypes are the endings of files that pages load by themselves.
var assetTypes = map[string]bool{
	".css": true, ".js": true, ".mjs": true, ".map": true, ".png": true, ".jpg": true, ".jpeg": true, ".gif": true,
	".svg": true, ".ico": true, ".webp": true, ".avif": true, ".woff": true, ".woff2": true, ".ttf": true, ".eot": true,
}

func isAsset(target string) bool {
	end := path.Ext(target)
	return len(end) <= 6 && assetTypes[strings.ToLower(end)]
}
