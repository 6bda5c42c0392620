package accesslog

import (
	"net/netip"
	"slices"
	"strings"
)

// Config holds how the lines of a log are read. The zero value is ready.
type Config struct {
	// Format is the format of the lines; "" detects it.
	Format Format
	// TrustedProxies are networks of proxies, beside loopback and private networks, whose entries of X-Forwarded-For
	// are believed.
	TrustedProxies []netip.Prefix
}

// maxWords bounds the words before a line of a server, and maxColons the texts with a colon after these words: grep -n
// writes two.
const (
	maxWords  = 12
	maxColons = 2
)

// Open returns a parser for the log that begins with the lines, comments included. It finds the format as which most
// lines parse, and the wrapping of the lines. found is false if no line has a request; the parser then is for the
// format that the first line resembles, so that its errors say why. An error is returned for a format that does not
// exist.
func Open(cfg Config, first []string) (p *Parser, found bool, err error) {
	formats := []Format{cfg.Format}
	if cfg.Format == "" {
		formats = formats[:0]
		for _, row := range forms {
			formats = append(formats, row.name)
		}
	}
	for _, f := range formats {
		if _, err := f.Parser(); err != nil {
			return nil, false, err
		}
	}
	var d detection
	d.tryFormats(formats, first, "")
	if !d.isClear(len(first)) {
		for _, field := range wrapperFields(first) {
			d.tryFormats(formats, unwrapAll(first, field), field)
		}
	}
	if p = d.parser; p == nil {
		p, _ = resembled(formats, first).Parser() // it was tried above
	}
	p.TrustProxies(cfg.TrustedProxies)
	return p, d.score > 0, nil
}

// unwrapAll returns the lines that are in a field.
func unwrapAll(lines []string, field string) (inner []string) {
	w := wrapping{field: field, headless: true}
	for _, l := range lines {
		if text, err := w.unwrap(l); err == nil {
			inner = append(inner, text)
		}
	}
	return inner
}

// wrapperFields returns the wrappers that the lines may have.
func wrapperFields(lines []string) (fields []string) {
	for _, field := range wrappers {
		if slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, `"`+field+`"`) }) {
			fields = append(fields, field)
		}
	}
	if slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, exported) }) {
		fields = append(fields, exported)
	}
	return fields
}

// resembled returns the format of which the first line reminds.
func resembled(formats []Format, lines []string) Format {
	for _, l := range lines {
		switch l = strings.TrimLeft(l, " \t"); {
		case strings.HasPrefix(l, "{") && slices.Contains(formats, JSON):
			return JSON
		case strings.HasPrefix(l, "#Fields:") && slices.Contains(formats, IIS):
			if sepOf(l) == "\t" {
				return CloudFront
			}
			return IIS
		case l != "" && l[0] != '#':
			return formats[0]
		}
	}
	return formats[0]
}

// detection holds the parser with which the lines make the most sense so far.
type detection struct {
	parser *Parser
	score  int
}

// tryFormats tries formats with each number of words before the lines, which are in a field of the log's lines. Fewer
// words win over more.
func (d *detection) tryFormats(formats []Format, lines []string, field string) {
	headless := !haveHeads(lines)
	for _, f := range formats {
		p, err := f.Parser()
		if err != nil {
			continue
		}
		words, colons := maxWords, maxColons
		if row := f.row(); row != nil && row.bare {
			words, colons = 0, 0
		}
		for n := range words + 1 {
			for c := range colons + 1 {
				w := wrapping{words: n, colons: c, headless: headless}
				d.try(*p, w, lines, field)
				if w.forwarded = true; f == Combined {
					d.try(*p, w, lines, field)
				}
			}
			if d.isClear(len(lines)) {
				return
			}
		}
	}
}

// haveHeads reports whether lines have heads of syslog: three of four lines, because a client can write a text with
// which a line of another wrapping looks like a line with a head.
func haveHeads(lines []string) bool {
	n := 0
	for _, l := range lines {
		if _, ok := cutSyslog(l); ok {
			n++
		}
	}
	return 4*n >= 3*len(lines)
}

// certain is the score of a line whose client is certain.
const certain = 4

// isClear reports whether the parser reads seven of eight lines with certainty, so that further trials cannot find a
// better one. The rest are lines of connections without a request, which every log has.
func (d *detection) isClear(n int) bool { return 8*d.score >= 7*certain*n }

// try scores the lines for a parser with a wrapping. The client decides about the words before a line: an address that
// is followed by the "-" of servers is the best, then any address, then a name, then no client.
func (d *detection) try(p Parser, w wrapping, lines []string, field string) {
	p.wrapping = w
	var e Entry
	score := 0
	for _, l := range lines {
		if p.Parse(l, &e) != nil {
			continue
		}
		switch c := e.Request.Client; {
		case c.IsZero():
			score++
		case c.Name != "":
			score += 2
		case p.loose:
			score += 3
		default:
			score += certain
		}
	}
	if score > d.score {
		p.wrapping.field = field
		d.parser, d.score = &p, score
	}
}
