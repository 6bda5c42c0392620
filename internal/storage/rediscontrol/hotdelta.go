package rediscontrol

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
)

// A change of a large hot set is an entry of hot:log:<publisher>: a line of
// fields apart by spaces, and a body of one line for each entry that it names.
//
//	version from epoch at until loops_until encoding
//	put  <line of the set>       a key is new or changed
//	gone key rule                a key left
//	loop <line of the set>       the same for the list of loops
//	unloop key rule
//
// The fields of a line are apart by tabs. Everything that the body does not
// name stays and has its new end at until, or loops_until.
const (
	encodingDelta = "hotdelta1"
	// compressDeltaFrom is lower than that of sets: few people read deltas.
	compressDeltaFrom = 1 << 10
)

// change is a delta with its place in the history of a publisher.
type change struct {
	hotset.Delta
	version, from, epoch uint64
}

// appendChange writes an entry of the log; the script adds version, from and epoch.
func appendChange(dst []byte, d hotset.Delta) ([]byte, error) {
	body, err := appendPart(nil, d.Keys, "put", "gone")
	if err == nil {
		body, err = appendPart(body, d.Loops, "loop", "unloop")
	}
	if err != nil {
		return nil, err
	}
	body, encoding, err := pack(body, encodingDelta, compressDeltaFrom)
	if err != nil {
		return nil, err
	}
	dst = fmt.Appendf(dst, "%d %d %d %s\n", micros(d.At), micros(d.Keys.Until), micros(d.Loops.Until), encoding)
	return append(dst, body...), nil
}

func appendPart(dst []byte, p hotset.ListDelta, put, gone string) ([]byte, error) {
	for i := range p.Put {
		var err error
		if dst, err = appendHot(append(append(dst, put...), '\t'), &p.Put[i]); err != nil {
			return nil, err
		}
	}
	for _, id := range p.Gone {
		dst = append(append(dst, gone...), '\t')
		dst = append(appendField(dst, string(id.Key)), '\t')
		dst = append(appendField(dst, id.Rule), '\n')
	}
	return dst, nil
}

func parseChange(entry string) (change, error) {
	var c change
	head, body, _ := strings.Cut(entry, "\n")
	fields := strings.Split(head, " ")
	if len(fields) < 7 {
		return c, fmt.Errorf("rediscontrol: hot set change has %d fields; want 7", len(fields))
	}
	for i, n := range []*uint64{&c.version, &c.from, &c.epoch} {
		var err error
		if *n, err = strconv.ParseUint(fields[i], 10, 64); err != nil {
			return c, fmt.Errorf("rediscontrol: hot set change: %q is not a number", fields[i])
		}
	}
	for i, t := range []*time.Time{&c.At, &c.Keys.Until, &c.Loops.Until} {
		var err error
		if *t, err = parseMicros(fields[3+i]); err != nil {
			return c, fmt.Errorf("rediscontrol: hot set change: %w", err)
		}
	}
	text, err := unpack(body, fields[6], encodingDelta)
	if err != nil {
		return c, err
	}
	err = eachLine(text, "hot set change", func(line string) error { return parseOne(line, &c.Delta) })
	return c, err
}

func parseOne(line string, d *hotset.Delta) error {
	what, line, _ := strings.Cut(line, "\t")
	switch what {
	case "put":
		return parsePut(line, &d.Keys)
	case "loop":
		return parsePut(line, &d.Loops)
	case "gone":
		return parseGone(line, &d.Keys)
	case "unloop":
		return parseGone(line, &d.Loops)
	}
	return fmt.Errorf("%q is not known here; upgrade this program", what)
}

func parsePut(line string, p *hotset.ListDelta) error {
	h, err := parseHot(line)
	if err != nil {
		return err
	}
	h.Rule = strings.Clone(h.Rule) // the line is a part of something larger
	p.Put = append(p.Put, h)
	return nil
}

func parseGone(line string, p *hotset.ListDelta) error {
	key, rest, ok := strings.Cut(line, "\t")
	if !ok || key == "" {
		return fmt.Errorf("%q: want key and rule", line)
	}
	rule, _, _ := strings.Cut(rest, "\t")
	p.Gone = append(p.Gone, hotset.ID{Key: hottype.Key(strings.Clone(unescape(key))),
		Rule: strings.Clone(unescape(rule))})
	return nil
}
