package canon

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// The oracle computes the same as the package, slowly and differently: it makes a list of decoded pairs of everything
// and uses no buffers.

type decoded struct{ name, value string }

func oracleDecode(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		var c int
		if n, err := fmt.Sscanf(s[i:min(len(s), i+3)], "%%%02x", &c); n == 1 && err == nil &&
			i+2 < len(s) && strings.Contains(hexDigits, s[i+1:i+2]) && strings.Contains(hexDigits, s[i+2:i+3]) {
			out.WriteByte(byte(c))
			i += 2
			continue
		}
		out.WriteString(strings.ReplaceAll(s[i:i+1], "+", " "))
	}
	return out.String()
}

const hexDigits = "0123456789abcdefABCDEF"

func oraclePairs(raw string) (pairs []decoded) {
	for piece := range strings.SplitSeq(raw, "&") {
		if piece == "" {
			continue
		}
		name, value, _ := strings.Cut(piece, "=")
		pairs = append(pairs, decoded{oracleDecode(name), oracleDecode(value)})
	}
	return pairs
}

const unreserved = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

func oracleEncode(s string) string {
	var out strings.Builder
	for _, c := range []byte(s) {
		if strings.IndexByte(unreserved, c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

func sortDecoded(pairs []decoded) {
	sort.SliceStable(pairs, func(i, j int) bool {
		a, b := pairs[i], pairs[j]
		return a.name < b.name || a.name == b.name && a.value < b.value
	})
}

// oracleCanonical writes decoded pairs.
func oracleCanonical(pairs []decoded) string {
	pairs = append([]decoded(nil), pairs...)
	sortDecoded(pairs)
	var out []string
	for _, p := range pairs {
		out = append(out, oracleEncode(p.name)+"="+oracleEncode(p.value))
	}
	return strings.Join(out, "&")
}

// oracleKeys returns the sorted keys of decoded pairs: one for each choice of a value for every name of which each
// value counts.
func oracleKeys(sel Selection, pairs []decoded) []string {
	keys := [][]decoded{nil}
	var names []string
	values := map[string][]string{}
	for _, p := range pairs {
		if !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
		values[p.name] = append(values[p.name], p.value)
	}
	for _, name := range names {
		normal := sel.Normal
		for _, q := range sel.Names {
			if q.Name == name {
				normal = q.Normal
			}
		}
		keys = oracleChoose(keys, name, values[name], normal)
	}
	if len(keys) > MaxKeys {
		return []string{Malformed}
	}
	var out []string
	for _, k := range keys {
		out = append(out, oracleCanonical(k))
	}
	slices.Sort(out)
	return out
}

// oracleChoose adds a name with its values to every key.
func oracleChoose(keys [][]decoded, name string, values []string, normal Normalization) (out [][]decoded) {
	values = slices.Clone(values)
	if normal.Integer != IntegerNone {
		for i, v := range values {
			if n, err := strconv.Atoi(v); err == nil {
				values[i] = strconv.Itoa(n)
			}
		}
	}
	switch normal.Duplicates {
	case DuplicatesFirst:
		values = values[:1]
	case DuplicatesLast:
		values = values[len(values)-1:]
	case DuplicatesEach:
		slices.Sort(values)
		for _, v := range slices.Compact(values) {
			for _, k := range keys {
				out = append(out, append(slices.Clone(k), decoded{name, v}))
			}
		}
		return out
	}
	for _, k := range keys {
		for _, v := range values {
			k = append(slices.Clone(k), decoded{name, v})
		}
		out = append(out, k)
	}
	return out
}

// oracleTokens writes one name, value or resource as HP1 tokens.
func oracleTokens(s string) (tokens []string) {
	for i, c := range []byte(s) {
		switch {
		case c == 'Z':
			tokens = append(tokens, "ZZ")
		case c == '_' && i > 0 && i < len(s)-1:
			tokens = append(tokens, "__")
		case strings.IndexByte("-._~", c) < 0 && strings.IndexByte(unreserved, c) >= 0:
			tokens = append(tokens, string(c))
		default:
			tokens = append(tokens, fmt.Sprintf("Z%02X", c))
		}
	}
	if s == "" {
		return []string{"Ze"}
	}
	return tokens
}

func oracleJoin(tokens []string, source string) string {
	whole := strings.Join(tokens, "")
	if len(whole) <= 200 {
		return whole
	}
	head := ""
	for _, t := range tokens {
		if len(head)+len(t) > 160 {
			break
		}
		head += t
	}
	return strings.TrimRight(head, "=-_") + fmt.Sprintf("Zh%x", sha256.Sum256([]byte(source)))[:34]
}

// oracleComponent writes decoded pairs in HP1.
func oracleComponent(pairs []decoded) string {
	if len(pairs) == 0 {
		return "Ze"
	}
	sorted := append([]decoded(nil), pairs...)
	sortDecoded(sorted)
	var tokens []string
	for i, p := range sorted {
		if i > 0 {
			tokens = append(tokens, "-")
		}
		tokens = append(append(append(tokens, oracleTokens(p.name)...), "="), oracleTokens(p.value)...)
	}
	return oracleJoin(tokens, oracleCanonical(pairs))
}

// Generators. Texts are short and rich in bytes with a meaning.

var anyText = rapid.Custom(func(t *rapid.T) string {
	if rapid.IntRange(0, 19).Draw(t, "long") == 0 {
		return rapid.StringOfN(rapid.RuneFrom([]rune("ab_Z-é")), 30, 60, 60).Draw(t, "text")
	}
	return string(rapid.SliceOfN(rapid.OneOf(
		rapid.SampledFrom([]byte("ab1_Z%=&+-.~;ehF\x00\xff")), rapid.Byte()), 0, 5).Draw(t, "bytes"))
})

var anyPairs = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) decoded {
	return decoded{anyText.Draw(t, "name"), anyText.Draw(t, "value")}
}), 0, 16)

// spell writes a text as a client might: bytes without a meaning may be bare, every byte may be escaped in either case.
func spell(t *rapid.T, s string) string {
	var out strings.Builder
	for _, c := range []byte(s) {
		switch how := rapid.IntRange(0, 3).Draw(t, "how"); {
		case how == 0:
			fmt.Fprintf(&out, "%%%02x", c)
		case how == 1 || strings.IndexByte("%=&+", c) >= 0:
			fmt.Fprintf(&out, "%%%02X", c)
		case c == ' ':
			out.WriteByte('+')
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// spellQuery writes pairs as a client might, with empty pieces in between.
func spellQuery(t *rapid.T, pairs []decoded) string {
	var out strings.Builder
	for _, p := range pairs {
		out.WriteString(strings.Repeat("&", rapid.IntRange(1, 2).Draw(t, "ands")))
		out.WriteString(spell(t, p.name) + "=" + spell(t, p.value))
	}
	return out.String()
}
