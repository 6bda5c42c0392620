package rediscontrol

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// A hot set is stored as text, with one key per line and tabs between the fields:
//
//	key  rule  rate  peak_rate  since_us  until_us
//
// Times are unix microseconds, or 0 if unset. In key and rule a backslash, tab and newline are written \\, \t and \n;
// all other bytes stand for themselves, also bytes that are not UTF-8, because a key must be read as it was written
// (JSON would change it). Named fields follow (hotcodec_optional.go); a reader skips names that it does not know. Loops
// follow the keys.
//
// Large bodies are compressed, and changed by deltas (hotdelta.go). The body is then only a part of the set, and
// another encoding name keeps readers that know no deltas from reading it as the whole.
const (
	encodingWhole = "hotset1" // the body is the set
	encodingBase  = "hotset2" // the body is the set as of base; the log has the rest
	packed        = "+gzip"
	// compressFrom keeps bodies readable that a person may look at.
	compressFrom = 16 << 10
	// bodyMax bounds the bytes that are stored and that a reader unpacks: some 150,000 keys.
	bodyMax = 16 << 20
	// maxLines bounds the keys and loops of one set.
	maxLines = 100_000
)

func appendSet(dst []byte, keys []hottype.HotKey) ([]byte, error) {
	if len(keys) > maxLines {
		return nil, fmt.Errorf("rediscontrol: hot set of %d keys is over %d; lower max_hot", len(keys), maxLines)
	}
	for i := range keys {
		var err error
		if dst, err = appendHot(dst, &keys[i]); err != nil {
			return nil, err
		}
		if len(dst) > bodyMax {
			return nil, fmt.Errorf("rediscontrol: hot set of %d keys is over %d bytes; lower max_hot", len(keys), bodyMax)
		}
	}
	return dst, nil
}

// appendHot writes one line, which parseLine reads. Deltas have the same lines.
func appendHot(dst []byte, h *hottype.HotKey) ([]byte, error) {
	dst, err := appendLine(dst, h, unixMicros(h.Until))
	return append(dst, '\n'), err
}

func appendLine(dst []byte, h *hottype.HotKey, until int64) ([]byte, error) {
	if !isFinite(h.Rate) || !isFinite(h.PeakRate) {
		return nil, fmt.Errorf("rediscontrol: hot key %q: rate %v and peak %v must be finite", h.Key, h.Rate, h.PeakRate)
	}
	dst = append(appendField(dst, string(h.Key)), '\t')
	dst = append(appendField(dst, h.Rule), '\t')
	dst = append(strconv.AppendFloat(dst, h.Rate, 'g', -1, 64), '\t')
	dst = append(strconv.AppendFloat(dst, h.PeakRate, 'g', -1, 64), '\t')
	dst = append(strconv.AppendInt(dst, unixMicros(h.Since), 10), '\t')
	return appendOptional(strconv.AppendInt(dst, until, 10), h)
}

// parseSet reads the text of appendSet and appendLoops. The result does not keep body.
func parseSet(body string) (keys, loops []hottype.HotKey, err error) {
	if n := strings.Count(body, "\n"); n > maxLines {
		return nil, nil, fmt.Errorf("rediscontrol: hot set of %d keys is over %d", n, maxLines)
	}
	keys = make([]hottype.HotKey, 0, strings.Count(body, "\n"))
	rules := map[string]string{} // few rules, many keys: one string per rule
	err = eachLine(body, "hot set", func(line string) error {
		h, loop, err := parseLine(line)
		if known, ok := rules[h.Rule]; ok {
			h.Rule = known
		} else {
			h.Rule = strings.Clone(h.Rule)
			rules[h.Rule] = h.Rule
		}
		if loop {
			loops = append(loops, h)
		} else {
			keys = append(keys, h)
		}
		return err
	})
	return keys, loops, err
}

// eachLine calls f with each line of a text, until it fails. The error has the number of the line.
func eachLine(text, what string, f func(line string) error) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, ended := strings.CutSuffix(line, "\n")
		if !ended {
			return fmt.Errorf("rediscontrol: %s line %d: no newline at its end", what, n)
		}
		if err := f(line); err != nil {
			return fmt.Errorf("rediscontrol: %s line %d: %w", what, n, err)
		}
	}
	return nil
}

// parseLine reads a line and reports whether it is a loop. The result's rule is a part of line.
func parseLine(line string) (h hottype.HotKey, loop bool, err error) {
	var field [6]string
	for i := range field {
		var more bool
		field[i], line, more = strings.Cut(line, "\t")
		if !more && i < len(field)-1 {
			return h, false, fmt.Errorf("%d fields instead of at least %d", i+1, len(field))
		}
	}
	h.Key, h.Rule = hottype.Key(strings.Clone(unescape(field[0]))), unescape(field[1])
	if h.Key == "" {
		return h, false, fmt.Errorf("empty key")
	}
	var errs [4]error
	h.Rate, errs[0] = parseRate(field[2])
	h.PeakRate, errs[1] = parseRate(field[3])
	h.Since, errs[2] = parseMicros(field[4])
	h.Until, errs[3] = parseMicros(field[5])
	if err = cmp.Or(errs[:]...); err == nil {
		loop, err = parseOptional(line, &h)
	}
	return h, loop, err
}

func parseRate(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !isFinite(f) {
		return 0, fmt.Errorf("rate %q is not a finite number up to 2^53", s)
	}
	return f, nil
}

// maxRate bounds a rate, so that sums of rates stay finite and JSON can represent them.
const maxRate = 1 << 53

func isFinite(f float64) bool { return math.Abs(f) <= maxRate }

// unixMicros returns the stored form of a time, or 0 if it is zero.
func unixMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func parseMicros(s string) (time.Time, error) {
	us, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("time %q is not a number of microseconds", s)
	}
	if us == 0 {
		return time.Time{}, nil
	}
	return time.UnixMicro(us).UTC(), nil
}

// appendField writes a field without tabs and newlines.
func appendField(dst []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; c {
		case '\\':
			dst = append(dst, '\\', '\\')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// unescape reverses appendField. A backslash before other bytes stands for itself.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	return fieldUnescaper.Replace(s)
}

// fieldUnescaper is immutable and safe for concurrent use.
var fieldUnescaper = strings.NewReplacer(`\\`, `\`, `\t`, "\t", `\n`, "\n")

// pack compresses a body of at least from bytes. The encoding is name, or name and "+gzip".
func pack(body []byte, name string, from int) ([]byte, string, error) {
	if len(body) < from {
		return body, name, nil
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(body)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return nil, "", fmt.Errorf("rediscontrol: compress hot set: %w", err)
	}
	return out.Bytes(), name + packed, nil
}

// unpack reverses pack for the encodings in names, up to bodyMax bytes.
func unpack(body, encoding string, names ...string) (string, error) {
	name, compressed := strings.CutSuffix(encoding, packed)
	if !slices.Contains(names, name) {
		return "", fmt.Errorf("rediscontrol: hot set encoding %q is not known here; upgrade this program", encoding)
	}
	if !compressed && len(body) > bodyMax {
		return "", fmt.Errorf("rediscontrol: hot set is over %d bytes", bodyMax)
	}
	if !compressed {
		return body, nil
	}
	r, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("rediscontrol: unpack hot set: %w", err)
	}
	var out strings.Builder
	n, err := io.Copy(&out, io.LimitReader(r, bodyMax+1))
	if err != nil {
		return "", fmt.Errorf("rediscontrol: unpack hot set: %w", err)
	}
	if n > bodyMax {
		return "", fmt.Errorf("rediscontrol: hot set is over %d bytes unpacked", bodyMax)
	}
	return out.String(), nil
}
