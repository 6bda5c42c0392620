package canon

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

var redactSecret = []byte("s3cret-of-the-test")

func hashed(value string) string {
	m := hmac.New(sha256.New, redactSecret)
	m.Write([]byte(value))
	return "hash-" + hex.EncodeToString(m.Sum(nil))[:24]
}

func TestAppend_RedactsValues(t *testing.T) {
	t.Parallel()
	sel := Selection{
		All: true, Secret: redactSecret, Ignore: []string{"utm_*"},
		Names:  []Param{{Name: "id"}, {Name: "user", Normal: Normalization{Fold: true, Trim: true, Redact: RedactHash}}},
		Redact: []Redaction{{"token", RedactHash}, {"*mail*", RedactMask}, {"Session", RedactDrop}},
		Extra:  []Param{{Name: "path.x", Normal: Normalization{Redact: RedactHash}}},
	}
	s, lim := NewSelector(sel), DefaultQueryBounds()
	for query, want := range map[string]string{
		"id=5&token=SECRET":               "?id=5&path.x=" + hashed("a b") + "&token=" + hashed("SECRET"),
		"TOKEN=SECRET":                    "?TOKEN=" + hashed("SECRET") + "&path.x=" + hashed("a b"),
		"t%6Fken=SEC%52ET":                "?path.x=" + hashed("a b") + "&token=" + hashed("SECRET"),
		"token[a]=SECRET":                 "?path.x=" + hashed("a b") + "&token%5Ba%5D=" + hashed("SECRET"),
		"e-Mail=a@b.c&email_2=SECRET":     "?e-Mail=masked&email_2=masked&path.x=" + hashed("a b"),
		"session=SECRET&SESSION[]=SECRET": "?path.x=" + hashed("a b"),
		"user=+ANN+&utm_x=1":              "?path.x=" + hashed("a b") + "&user=" + hashed("ann"),
		"token=" + hashed("SECRET"):       "?path.x=" + hashed("a b") + "&token=" + hashed(hashed("SECRET")),
		"token=":                          "?path.x=" + hashed("a b") + "&token=" + hashed(""),
		"token":                           "?path.x=" + hashed("a b") + "&token=" + hashed(""),
	} {
		got, n := s.Append([]byte("r"), query, []Value{{Text: "a%20b", Escaped: true, Present: true}}, &lim,
			new(Scratch))
		if n == 0 || string(got) != "r"+want {
			t.Errorf("%s: %s, want r%s", query, got, want)
		}
		if err := checkCanonical(string(got)); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

func checkCanonical(key string) error { return Check(hottype.Key(key)) }

// A key never holds a redacted value.
func TestAppend_NoKeyHoldsRedactedValue(t *testing.T) {
	t.Parallel()
	lim := DefaultQueryBounds()
	for _, how := range []Redact{RedactHash, RedactMask, RedactDrop} {
		for _, secret := range [][]byte{redactSecret, nil} {
			s := NewSelector(Selection{All: true, Secret: secret, Redact: []Redaction{{"tok*", how}}})
			rapid.Check(t, func(rt *rapid.T) {
				value := "SECRET" + rapid.String().Draw(rt, "value")
				encoded, _ := appendEncoded(nil, []byte(value))
				name := rapid.SampledFrom([]string{"token", "TOK", "tok%65n", "token%5b%5d", "token[x][y]", "tok+en"}).
					Draw(rt, "name")
				got, _ := s.Append(nil, "a=1&"+name+"="+string(encoded)+"&b=2", nil, &lim, new(Scratch))
				if strings.Contains(strings.ToUpper(string(got)), "SECRET") {
					rt.Errorf("%s=%q: %s", name, value, got)
				}
			})
		}
	}
}

func TestIsRedacted_RecognizesReplacements(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"masked": true, hashed("x"): true, "": false, "hash-": false, strings.ToUpper(hashed("x")): false,
		hashed("x") + "0":                 false,
		"hash-" + strings.Repeat("F", 24): false, "hash-" + strings.Repeat("g", 24): false,
	} {
		if got := IsRedacted(value); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func BenchmarkHashedValue(b *testing.B) {
	s := NewSelector(Selection{All: true, Secret: redactSecret, Redact: []Redaction{{"token", RedactHash}}})
	lim, sc, dst := DefaultQueryBounds(), new(Scratch), make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = s.Append(dst[:0], "id=5&token=SECRET", nil, &lim, sc)
	}
}
