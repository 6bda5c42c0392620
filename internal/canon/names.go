package canon

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Style is the way in which keys are written as metric names. It is a setting that all programs share and is never
// guessed from a name.
type Style string

// The styles.
const (
	// StyleHP1 survives etsy statsd, carbon, Graphite and statsd_exporter. A resource or parameters that would be
	// longer than 200 bytes are hashed.
	StyleHP1 Style = "hp1"
	// StylePlain writes the canonical parameters unchanged, but "." as %2E, for servers that keep names. It hashes no
	// part, however long.
	StylePlain Style = "plain"
)

// ErrForeign is the error for a metric that hotparam did not write: it has another prefix, or no hot_param part. The
// sender has made no error.
var ErrForeign = errors.New("canon: not a hot_param metric of this prefix")

// aliasMark begins the alias of a key. No resource begins so.
const aliasMark = "!hp1:"

const aliveSuffix = ".alive"

// Names writes keys as metric names and reads them back. It is a plain value.
type Names struct {
	// Prefix is [a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*.
	Prefix string
	Style  Style // "" is hp1
}

// Validate returns an error if the prefix or the style cannot be used.
func (n Names) Validate() error {
	for part := range strings.SplitSeq(n.Prefix, ".") {
		if !isName(part) {
			return fmt.Errorf("canon: metric prefix %q cannot be used; write a-z, 0-9 and _, a letter first, "+
				"in parts joined by dots, such as site.hotparam", n.Prefix)
		}
	}
	switch n.Style {
	case "", StyleHP1, StylePlain:
		return nil
	}
	return fmt.Errorf("canon: metric style %q is neither hp1 nor plain", n.Style)
}

// isName reports whether s is [a-z][a-z0-9_]*, the form of a rule's name.
func isName[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		c := s[i]
		if ('a' > c || c > 'z') && (i == 0 || c != '_' && ('0' > c || c > '9')) {
			return false
		}
	}
	return len(s) > 0
}

// Append appends "{prefix}.{resource}.hot_param.{component}".
func (n Names) Append(dst []byte, key hottype.Key) []byte {
	resource, params := key.Cut()
	dst = append(append(dst, n.Prefix...), '.')
	if r, c, ok := cutAlias(string(key)); ok {
		dst = append(append(dst, r...), "."+componentMark+"."...)
		return append(dst, c...)
	}
	if n.Style == StylePlain {
		dst = appendPlainResource(dst, resource)
		dst = append(dst, "."+componentMark+"."...)
		return appendPlain(dst, params)
	}
	dst = appendResource(dst, resource)
	dst = append(dst, "."+componentMark+"."...)
	return appendComponent(dst, params)
}

// Parse reads a metric name back into its key, also as a statsd_exporter without a mapping leaves it ("." "=" and "-"
// become "_"; hp1 only). It returns [ErrForeign], without allocating, for names that hotparam did not write, and other
// errors for names that are broken. For a hashed name it returns the alias of the key; see [Alias].
func (n Names) Parse(metric []byte) (hottype.Key, error) {
	if _, _, ok := n.cutMetric(metric); !ok {
		return "", ErrForeign
	}
	key, err := n.AppendKey(make([]byte, 0, len(metric)), metric)
	return hottype.Key(key), err
}

// AppendAlive appends "{prefix}.alive", the metric by which a sender shows that it lives. It has no hot_param part, so
// no key is written like it.
func (n Names) AppendAlive(dst []byte) []byte {
	return append(append(dst, n.Prefix...), aliveSuffix...)
}

// IsAlive reports whether AppendAlive writes the metric.
func (n Names) IsAlive(metric []byte) bool {
	prefix, ok := bytes.CutSuffix(metric, []byte(aliveSuffix))
	return ok && string(prefix) == n.Prefix
}

// AppendKey parses like Parse, but appends the key to dst, and appends nothing if there is an error. It allocates only
// for an error.
func (n Names) AppendKey(dst, metric []byte) ([]byte, error) {
	resource, component, ok := n.cutMetric(metric)
	if !ok {
		return dst, ErrForeign
	}
	key, err := n.appendKey(dst, resource, component)
	if err != nil {
		return dst, fmt.Errorf("canon: metric %.300q: %w", metric, err)
	}
	return key, nil
}

// cutMetric returns the two parts of a metric that make up its key.
func (n Names) cutMetric(metric []byte) (resource, component []byte, ok bool) {
	p := len(n.Prefix)
	if len(metric) <= p {
		return nil, nil, false
	}
	if metric[p] == '.' && string(metric[:p]) == n.Prefix {
		resource, component, ok = bytes.Cut(metric[p+1:], []byte("."+componentMark+"."))
		return resource, component, ok
	}
	if metric[p] != '_' || n.Style == StylePlain || !isExported(metric[:p], n.Prefix) {
		return nil, nil, false
	}
	// A resource cannot hold this mark: its underscores are double.
	return bytes.Cut(metric[p+1:], []byte("_"+componentMark+"_"))
}

// isExported reports whether name is prefix with "_" for ".".
func isExported(name []byte, prefix string) bool {
	for i, c := range name {
		if c != prefix[i] && (c != '_' || prefix[i] != '.') {
			return false
		}
	}
	return true
}

func (n Names) appendKey(dst, resource, component []byte) (_ []byte, err error) {
	start := len(dst)
	if n.Style == StylePlain {
		dst, err = decodePlainResource(dst, resource)
	} else {
		var hashed bool
		if dst, hashed, err = decodeResource(dst, resource); hashed {
			return appendAlias(dst, resource, component)
		}
	}
	if err != nil {
		return dst, err
	}
	if !isResource(dst[start:]) {
		return dst, errResource
	}
	end := len(dst)
	dst = append(dst, '?')
	if n.Style == StylePlain {
		dst, err = decodePlain(dst, component)
	} else {
		var hashed bool
		if dst, hashed, err = decodeComponent(dst, component); hashed {
			return appendAlias(dst[:start], resource, component)
		}
	}
	if len(dst) == end+1 {
		dst = dst[:end] // no parameter: no "?"
	}
	return dst, err
}

// isResource reports whether a key can begin with r: a rule's name or a path.
func isResource[T ~string | ~[]byte](r T) bool {
	if len(r) == 0 || r[0] != '/' {
		return isName(r)
	}
	for i := range len(r) {
		if r[i] == '?' {
			return false
		}
	}
	return true
}

// appendAlias appends the alias of a key of which one part is hashed. The other part, if it can be decoded, must be
// valid.
func appendAlias(dst, resource, component []byte) ([]byte, error) {
	end := len(dst)
	if _, _, err := decodeResource(dst, resource); err != nil {
		return dst, err
	}
	if _, _, err := decodeComponent(dst[:end], component); err != nil {
		return dst[:end], err
	}
	dst = append(dst[:end], aliasMark...)
	dst = append(append(dst, resource...), '.')
	return appendSeparators(dst, component), nil
}

// Alias appends to dst the alias of a key whose hp1 form is hashed, as [Names.Parse] spells it: "!hp1:" + resource +
// "." + component, both in hp1. It returns false, quickly, for all other keys.
func Alias(key, dst []byte) ([]byte, bool) {
	resource, params, _ := bytes.Cut(key, []byte("?"))
	if len(resource) <= ShortPart && len(params) <= ShortPart || bytes.HasPrefix(key, []byte(aliasMark)) {
		return dst, false
	}
	start := len(dst)
	dst = append(dst, aliasMark...)
	dst = appendResource(dst, resource)
	dst = append(dst, '.')
	dst = appendComponent(dst, params)
	if !hasHash(dst[start:]) {
		return dst[:start], false
	}
	return dst, true
}

// cutAlias returns the two components of an alias key.
func cutAlias(key string) (resource, component string, ok bool) {
	rest, ok := strings.CutPrefix(key, aliasMark)
	if !ok {
		return "", "", false
	}
	resource, component, ok = strings.Cut(rest, ".")
	return resource, component, ok && isSafe(resource) && isSafe(component)
}

// isSafe reports whether a text has only bytes of the hp1 alphabet.
func isSafe(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isHP1Literal(c) && c != 'Z' && c != '_' && c != '=' && c != '-' {
			return false
		}
	}
	return text != ""
}
