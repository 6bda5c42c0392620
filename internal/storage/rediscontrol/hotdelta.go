package rediscontrol

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
)

// A change of a large hot set is an entry of hot:log:<publisher>: a line of fields with spaces between them, and a body
// with one line for each entry that it names.
//
//	version from epoch at until loops_until encoding
//	put  <line of the set>       a key is new or changed
//	gone key rule                a key left
//	loop <line of the set>       the same for the list of loops
//	unloop key rule
//
// The fields of a body line have tabs between them. Every entry that the body does not name stays and has its new end
// at until, or loops_until.
const (
	encodingDelta = "hotdelta1"
	// compressDeltaFrom is lower than compressFrom, because people rarely read changes.
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
	dst = fmt.Appendf(dst, "%d %d %d %s\n", unixMicros(d.At), unixMicros(d.Keys.Until), unixMicros(d.Loops.Until),
		encoding)
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
		return c, fmt.Errorf("rediscontrol: hot set change has %d fields instead of 7", len(fields))
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
	h, _, err := parseLine(line)
	if err != nil {
		return err
	}
	h.Rule = strings.Clone(h.Rule) // the line is a part of a larger text
	p.Put = append(p.Put, h)
	return nil
}

func parseGone(line string, p *hotset.ListDelta) error {
	key, rest, ok := strings.Cut(line, "\t")
	if !ok || key == "" {
		return fmt.Errorf("%q must be a key and a rule", line)
	}
	rule, _, _ := strings.Cut(rest, "\t")
	p.Gone = append(p.Gone, hotset.ID{Key: hottype.Key(strings.Clone(unescape(key))),
		Rule: strings.Clone(unescape(rule))})
	return nil
}

// errGap is the error of a log that does not continue the reader's set.
var errGap = errors.New("rediscontrol: the log of the hot set has a gap")

// heldSet is a reader's set of one publisher. It is replaced, never changed.
type heldSet struct {
	set    report.HotSet // its Version is the last version applied
	epoch  uint64
	hasLog bool // a log of changes continues it
	bytes  int  // bytes read for it
}

// askWhole asks for a set and then for its log, so that the log is not older.
func (f *Feed) askWhole(ctx context.Context, p redis.Pipeliner, publisher string) func() (heldSet, error) {
	fields := p.HMGet(ctx, f.keys.HotSet(publisher), "version", "base", "epoch", "at", "encoding", "body")
	entries := p.ZRange(ctx, f.keys.HotLog(publisher), 0, -1)
	return func() (heldSet, error) { return parseHotSet(fields.Val(), entries.Val()) }
}

func (f *Feed) askChanges(ctx context.Context, p redis.Pipeliner, publisher string,
	have heldSet) func() (heldSet, error) {
	entries := p.ZRangeByScore(ctx, f.keys.HotLog(publisher), &redis.ZRangeBy{
		Min: "(" + strconv.FormatUint(have.set.Version, 10), Max: "+inf",
	})
	return func() (heldSet, error) {
		have.bytes = 0
		if len(entries.Val()) == 0 {
			return have, errGap
		}
		next, err := have.advance(entries.Val())
		if err != nil { // after any error: the whole set may still be readable
			return next, errGap
		}
		return next, nil
	}
}

// advance applies the changes after h, as far as possible. If a change does not continue h, it returns errGap, or the
// error of an unreadable entry before that change.
func (h heldSet) advance(entries []string) (heldSet, error) {
	missing := errGap
	for _, entry := range entries {
		c, err := parseChange(entry)
		h.bytes += len(entry)
		switch {
		case err != nil:
			missing = err // an error only if the entry was needed
		case c.version <= h.set.Version:
			// in the set already
		case c.from != h.set.Version || c.epoch != h.epoch:
			return h, missing
		default:
			h.set = c.Apply(h.set)
			h.set.Version = c.version
		}
	}
	return h, nil
}

// withSortedLists returns the set with its lists sorted. The result shares its lists with h, which is safe because
// hotset.Delta.Apply changes no list in place.
func (h heldSet) withSortedLists() report.HotSet {
	if h.hasLog {
		hotset.Sort(h.set.Keys)
		hotset.Sort(h.set.Loops)
	}
	return h.set
}

// parseHotSet reads the replies to askWhole: the fields of a set and the entries of its log. It returns redis.Nil
// without a set. With another error it still returns the version, if it is readable; with errGap also the readable
// part.
func parseHotSet(fields []any, entries []string) (heldSet, error) {
	var h heldSet
	var text [6]string
	if len(fields) != len(text) {
		return h, fmt.Errorf("rediscontrol: hot set has %d fields instead of %d", len(fields), len(text))
	}
	for i, f := range fields {
		s, ok := f.(string)
		if !ok && i != 1 { // a program of an older version writes no base
			return h, redis.Nil
		}
		text[i] = s
	}
	version, err := strconv.ParseUint(text[0], 10, 64)
	if err != nil {
		return h, fmt.Errorf("rediscontrol: hot set version %q is not a number", text[0])
	}
	h.set.Version = version
	if h.epoch, err = strconv.ParseUint(text[2], 10, 64); err != nil {
		return h, fmt.Errorf("rediscontrol: hot set epoch %q is not a number", text[2])
	}
	h.bytes = len(text[5])
	body, err := unpack(text[5], text[4], encodingWhole, encodingBase)
	if err != nil {
		return h, err
	}
	if h.set.Keys, h.set.Loops, err = parseSet(body); err != nil {
		return h, err
	}
	if h.set.At, err = parseMicros(text[3]); err != nil {
		return h, fmt.Errorf("rediscontrol: hot set: %w", err)
	}
	if text[4] == encodingWhole || text[4] == encodingWhole+packed {
		return h, nil
	}
	return h.sinceBase(text[1], entries)
}

// sinceBase advances a set as of version base to the stored version, by the entries of its log.
func (h heldSet) sinceBase(base string, entries []string) (heldSet, error) {
	version := h.set.Version
	n, err := strconv.ParseUint(base, 10, 64)
	if err != nil {
		return h, fmt.Errorf("rediscontrol: hot set base %q is not a number", base)
	}
	h.set.Version, h.hasLog = n, true
	h, err = h.advance(entries)
	switch {
	case err == nil && h.set.Version < version:
		return h, errGap
	case err != nil && !errors.Is(err, errGap):
		h.set.Version = version // the version that cannot be read, not the last readable one
	}
	return h, err
}
