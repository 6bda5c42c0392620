package envoy

import (
	"time"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Limits holds limits by descriptor, from files of envoyproxy/ratelimit. It is immutable. A nil *Limits has no limits.
type Limits struct {
	domains map[string]*node
}

// node is the part of a file that follows the entries up to one.
type node struct {
	limit *descriptorLimit // nil if no limit ends here
	// exact holds the next nodes by key and value, any by key alone.
	exact map[entry]*node
	any   map[string]*node
	// patterns are values with stars, in the order of the file. The first that matches holds.
	patterns []*pattern
}

// pattern is a value with stars, each of which matches any text.
type pattern struct {
	key, value string
	glob       canon.Glob // of value
	// shared is true if all values that match share one limit.
	shared bool
	to     *node
}

type descriptorLimit struct {
	name     string // the name by which others replace it; mostly ""
	replaces []string
	limit    *gate.Limit // nil if unlimited
}

// find returns the limit of a descriptor, which is the limit of its last entry, and the subject for which it counts, or
// nil if there is no limit. At each entry an exact value goes before a pattern, and a pattern before the key alone.
func (l *Limits) find(domain string, d *descriptor) (found *descriptorLimit, subject string) {
	if l == nil || len(d.entries) == 0 {
		return nil, ""
	}
	at := l.domains[domain]
	if at == nil {
		return nil, ""
	}
	b := appendPart(make([]byte, 0, 128), domain)
	for _, e := range d.entries {
		to, value := at.next(e)
		if at = to; at == nil {
			return nil, ""
		}
		b = appendEntry(b, e.key, value)
	}
	return at.limit, string(b)
}

// next returns the node of an entry, or nil if there is none, and the value for which its limit counts.
func (n *node) next(e entry) (to *node, value string) {
	if to := n.exact[e]; to != nil {
		return to, e.value
	}
	for _, p := range n.patterns {
		if p.key != e.key || !p.glob.Match([]byte(e.value)) {
			continue
		}
		if p.shared {
			return p.to, p.value
		}
		return p.to, e.value
	}
	return n.any[e.key], e.value
}

// limitMatch is a limit and the subject for which it counts.
type limitMatch struct {
	*descriptorLimit // nil if there is no limit
	subject          string
}

// resolve returns the limits of a call's descriptors, at the same indexes. A limit that another one of them replaces is
// unlimited.
func (l *Limits) resolve(in *rateLimitRequest) []limitMatch {
	out := make([]limitMatch, len(in.descriptors))
	var replaced map[string]bool
	for i := range in.descriptors {
		d := &in.descriptors[i]
		if own := d.own.compile(); own != nil {
			out[i] = limitMatch{&descriptorLimit{limit: own}, subjectOf(in.domain, d)}
			continue
		}
		if out[i].descriptorLimit, out[i].subject = l.find(in.domain, d); out[i].descriptorLimit == nil {
			continue
		}
		for _, name := range out[i].replaces {
			if replaced == nil {
				replaced = map[string]bool{}
			}
			replaced[name] = true
		}
	}
	for i, one := range out {
		if one.descriptorLimit != nil && replaced[one.name] {
			out[i].descriptorLimit = new(descriptorLimit)
		}
	}
	return out
}

// subjectOf returns the subject of a descriptor with its own values.
func subjectOf(domain string, d *descriptor) string {
	b := appendPart(nil, domain)
	for _, e := range d.entries {
		b = appendEntry(b, e.key, e.value)
	}
	return string(b)
}

func appendEntry(b []byte, key, value string) []byte {
	return appendPart(append(appendPart(append(b, '|'), key), '='), value)
}

// appendPart escapes the separators of a subject, so that no value looks like another entry.
func appendPart(b []byte, s string) []byte {
	return httplimit.AppendEscaped(b, s, func(c byte) bool {
		return c > ' ' && c < 0x7f && c != '|' && c != '=' && c != '%'
	})
}

const (
	day  = 24 * time.Hour
	year = 365 * day // also the longest window that a limit may have
)

// unit is a unit of Envoy's limits: its name in files, its number in messages, and its length.
type unit struct {
	name   string
	code   uint64
	length time.Duration
}

// units holds all units, shortest first. A month has 30 days and a year 365, as in envoyproxy/ratelimit.
var units = []unit{
	{"second", 1, time.Second},
	{"minute", 2, time.Minute},
	{"hour", 3, time.Hour},
	{"day", 4, day},
	{"week", 7, 7 * day},
	{"month", 5, 30 * day},
	{"year", 6, year},
}
