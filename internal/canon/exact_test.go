package canon

import (
	"strings"
	"testing"
)

// Numbers at the edges of each form.
func TestIntegerFormApply_AtEdges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		form       IntegerForm
		text, want string
	}{
		{IntegerPython, "4\u0660", "40"}, {IntegerPython, "4_0", "40"}, {IntegerPython, "\u0660", "0"}, {IntegerPython,
			"4\u066a", "4\u066a"},
		{IntegerPython, "4\u065f", "4\u065f"}, {IntegerPython, "\u0669", "9"}, {IntegerRuby, "4_0", "40"},
		{IntegerRuby, "4\u0662", "4"},
		{IntegerRuby, "_4", "0"}, {IntegerDecimal, "4_0", "4_0"}, {IntegerDecimal, "4\u0662", "4\u0662"},
		{IntegerDecimal, "+", "+"},
		{IntegerDecimal, "--1", "--1"}, {IntegerDecimal, "00", "0"}, {IntegerDecimal, "-00", "0"}, {IntegerDecimal,
			"-01", "-1"},
		{IntegerJS, "0x7fffffffffffffff", "9223372036854775807"}, {IntegerJS, "0x8000000000000000",
			"0x8000000000000000"},
		{IntegerJS, "#2", "#2"}, {IntegerJS, "0xg", "0xg"}, {IntegerJS, "0x9Fg", "159"}, {IntegerJS, "0", "0"},
		{IntegerJS, "00x2", "0"},
		{IntegerSpring, "#", "#"}, {IntegerSpring, "#2", "2"}, {IntegerSpring, "0x", "0x"}, {IntegerSpring, "0x2g",
			"0x2g"}, {IntegerSpring, "#g", "#g"},
		{IntegerSpring, "-#a", "-10"}, {IntegerSpring, "x2", "x2"}, {IntegerSpring, "4\u00a02", "4\u00a02"},
		{IntegerSpring, "4\x1d2", "42"},
		{IntegerSpring, "4\x1b2", "4\x1b2"}, {IntegerSpring, "4\x202", "42"}, {IntegerSpring, "4\u20072", "4\u20072"},
		{IntegerSpring, "4\u202f2", "4\u202f2"},
		{IntegerNumber, "4611686018427387903.", "4611686018427387903."}, {IntegerNumber, "4611686018427387904.",
			"4611686018427387904."},
		{IntegerNumber, "-4611686018427387904.", "-4611686018427387904."}, {IntegerNumber, "5e18", "5e18"},
		{IntegerNumber, "-5e18", "-5e18"},
		{IntegerNumber, "4e18", "4000000000000000000"}, {IntegerNumber, "-4e18", "-4000000000000000000"},
		{IntegerNumber, "0x", "0x"},
		{IntegerNumber, "0x1", "1"}, {IntegerNumber, "0x1g", "0x1g"}, {IntegerNumber, "1e", "1e"}, {IntegerNumber,
			"1e+", "1e+"}, {IntegerNumber, "1e+1", "10"},
		{IntegerNumber, "10e-1", "1"}, {IntegerNumber, "-.0", "0"}, {IntegerNumber, ".0", "0"}, {IntegerNumber, ".",
			"."}, {IntegerNumber, "-", "-"},
		{IntegerNumber, ".e1", ".e1"}, {IntegerNumber, "1.e1", "10"}, {IntegerNumber, "1.0", "1"}, {IntegerNumber,
			"1.5", "1.5"}, {IntegerNumber, "+1.", "1"},
		{IntegerNumber, "./", "./"}, {IntegerNumber, ".:", ".:"}, {IntegerNumber, ".9", ".9"}, {IntegerNumber, "1E1",
			"10"}, {IntegerNumber, "99", "99"},
		{IntegerPHP, "1e1e1", "10"}, {IntegerPHP, "1.9", "1"}, {IntegerPHP, "-1.9", "-1"}, {IntegerPHP, ".9", "0"},
		{IntegerPHP, ".", "0"}, {IntegerPHP, "5e18", "0"},
		{IntegerPHP, "1e+x", "1"}, {IntegerPHP, "-", "0"}, {IntegerPHP, "- 1", "0"}, {IntegerPHP, "0", "0"},
		{IntegerPHP, "9", "9"}, {IntegerPHP, "1.2.3", "1"},
	} {
		if got := string(c.form.apply([]byte(c.text))); got != c.want {
			t.Errorf("%s %q = %q, want %q", IntegerForms()[c.form], c.text, got, c.want)
		}
	}
}

// A component of up to 200 bytes is written out; a longer one is hashed behind at most 160 bytes, without a separator
// at the end. The test has every length around both bounds.
func TestAppendComponent_HashesBeyond200Bytes(t *testing.T) {
	t.Parallel()
	for n := 180; n <= 210; n++ {
		plain := strings.Repeat("a", n)
		if got := string(appendResource(nil, plain)); n <= 200 && got != plain ||
			n > 200 && (len(got) != 160+2+32 || !strings.HasPrefix(got, strings.Repeat("a", 160)+"Zh")) {
			t.Errorf("a resource of %d: %d bytes, %s", n, len(got), got)
		}
		params := "k=" + strings.Repeat("v", n-2)
		if got := string(appendComponent(nil, params)); n <= 200 && got != params ||
			n > 200 && (len(got) != 160+2+32 || !strings.HasPrefix(got, params[:160]+"Zh")) {
			t.Errorf("parameters of %d: %d bytes, %s", n, len(got), got)
		}
	}
	for n := 150; n <= 165; n++ { // the 160 bytes end at a pair
		params := "a=" + strings.Repeat("v", n-2) + "&b=" + strings.Repeat("w", 60)
		got, _, _ := strings.Cut(string(appendComponent(nil, params)), "Zh")
		want := ("a=" + strings.Repeat("v", n-2) + "-b=" + strings.Repeat("w", 60))[:160]
		if want = strings.TrimRight(want, "=-_"); got != want {
			t.Errorf("a name that ends at %d: %s, want %s", n, got, want)
		}
	}
	for n := 60; n <= 72; n++ { // bytes that become three each
		dots := strings.Repeat(".", n)
		if got := string(appendResource(nil, dots)); 3*n <= 200 && got != strings.Repeat("Z2E", n) ||
			3*n > 200 && got[:161] != strings.Repeat("Z2E", 53)+"Zh" {
			t.Errorf("%d dots: %s", n, got)
		}
	}
}

// A plain component decodes to its parameters or is rejected.
func TestDecodePlain_InvertsAppendPlain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ component, want string }{
		{"Ze", ""}, {"", "!"}, {"a=b", "a=b"}, {"a.b=c", "!"}, {"a%2Eb=c", "a.b=c"}, {"a=b%2E", "a=b."}, {"a=%2", "!"},
		{"a=b%2F", "a=b%2F"},
		{"a", "!"}, {"a=b&a=c", "a=b&a=c"}, {"b=1&a=1", "!"},
	} {
		got, err := decodePlain([]byte("x"), []byte(c.component))
		if bad := c.want == "!"; bad != (err != nil) || string(got) != "x"+strings.TrimSuffix(c.want, "!") {
			t.Errorf("%q: %q, %v", c.component, got, err)
		}
		if err == nil && string(appendPlain(nil, c.want)) != c.component {
			t.Errorf("%q becomes %q", c.want, appendPlain(nil, c.want))
		}
	}
}

// Unreserved bytes are written unchanged, and escapes that are cut off decode to their bytes.
func TestAppendEncoded_EscapesAllReservedBytes(t *testing.T) {
	t.Parallel()
	for i := range 256 {
		c := byte(i)
		plain := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("-._~",
			c) >= 0
		got, escaped := appendEncoded(nil, []byte{c})
		if escaped == plain || plain && string(got) != string(rune(c)) || !plain && (len(got) != 3 || got[0] != '%') {
			t.Errorf("%q becomes %s, escaped %v", c, got, escaped)
		}
		if back, n := DecodedByte(string(got)); back != c || n != len(got) {
			t.Errorf("%s is read as %q, %d", got, back, n)
		}
	}
	if _, escaped := appendEncoded(nil, []byte("a/b")); !escaped {
		t.Error("the escape in the middle is not reported")
	}
	for _, c := range []struct {
		text string
		as   spelling
		want string
	}{
		{"%41", path, "A"}, {"%4", path, "%4"}, {"%", path, "%"}, {"%4g", path, "%4g"}, {"%g4", path, "%g4"}, {"a+b",
			path, "a+b"},
		{"a+b", query, "a b"}, {"%2B+", query, "+ "}, {"%41+", literal, "%41+"}, {"%%41", path, "%A"}, {"%fF", path,
			"\xff"},
	} {
		if got := string(appendDecoded(nil, c.text, c.as)); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// Values from elsewhere, byte by byte: special bytes are escaped, also if there are no others in the value.
func TestAppend_EscapesExtraValues(t *testing.T) {
	t.Parallel()
	s := NewSelector(Selection{Extra: []Param{{Name: "header.x"}}})
	for i := range 256 {
		for _, around := range []string{"", "a"} {
			text := around + string([]byte{byte(i)}) + around
			escaped, _ := appendEncoded(nil, []byte(text))
			for _, value := range []Value{{Text: text, Present: true}, {Text: string(escaped), Escaped: true,
				Present: true}} {
				if got, want := params(&s, "", wide, value), "header.x="+string(escaped); got != want {
					t.Errorf("%+v: %q, want %q", value, got, want)
				}
			}
		}
	}
}

// A query of exactly QueryBytes is normalized like a shorter query.
func TestAppend_NormalizesLongestQuery(t *testing.T) {
	t.Parallel()
	s := NewSelector(Selection{Names: []Param{{Name: "id", Normal: Normalization{Integer: IntegerDecimal}}}})
	lim := wide
	for lim.QueryBytes = 5; lim.QueryBytes < 9; lim.QueryBytes++ {
		want := "id=7"
		if lim.QueryBytes < 7 {
			want = Malformed
		}
		if got := params(&s, "id=0007", lim); got != want {
			t.Errorf("%d bytes: %q, want %q", lim.QueryBytes, got, want)
		}
	}
}

// Every short metric is read without a panic, and its key is written as the same metric again.
func TestNamesParse_InvertsAppendForShortMetrics(t *testing.T) {
	t.Parallel()
	names := Names{Prefix: "x", Style: StyleHP1}
	const letters = "a_Z=-2Ee"
	read := 0
	var try func(text string)
	try = func(text string) {
		for _, metric := range []string{"x.a.hot_param." + text, "x." + text + ".hot_param.Ze"} {
			key, err := names.Parse([]byte(metric))
			if err != nil {
				continue
			}
			read++
			again, err := names.Parse(names.Append(nil, key))
			if err != nil || again != key {
				t.Errorf("%s is %q, which is written as %s and read as %q, %v", metric, key, names.Append(nil, key),
					again, err)
			}
		}
		for i := 0; len(text) < 5 && i < len(letters); i++ {
			try(text + letters[i:i+1])
		}
	}
	try("")
	if read < 100 {
		t.Errorf("%d texts could be read", read)
	}
}
