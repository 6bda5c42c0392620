package respcache

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseDirectives_AppliesStricterValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		want directives
	}{
		{"", directives{}},
		{",", directives{"": 0}},
		{"private", directives{"private": 0}},
		{",private,", directives{"": 0, "private": 0}},
		{"\tMAX-AGE\t=\t7\t,, no-cache ", directives{"max-age": 7 * time.Second, "": 0, "no-cache": 0}},
		{`x="no-store,no-cache",private`, directives{"x": 0, "private": 0}},
		{`x="\",no-store",private`, directives{"x": 0, "private": 0}},
		{`x="\\",private`, directives{"x": 0, "private": 0}},
		{`x=\,private`, directives{"x": 0, "private": 0}}, // a backslash quotes only within quotes
		{`x="private`, directives{"x": 0}},
		{"max-age=5=6", directives{"max-age": 0}},
		{"must-revalidate", directives{"must-revalidate": 0}},
		{"public, must-understand, no-store", directives{"public": 0, "must-understand": 0, "no-store": 0}},
		{"s-maxage=3, s-maxage=2, stale-while-revalidate=4, stale-if-error=5", directives{
			"s-maxage": 2 * time.Second, "stale-while-revalidate": 4 * time.Second, "stale-if-error": 5 * time.Second,
		}},
		{"max-age=3, max-age=5", directives{"max-age": 3 * time.Second}},
	} {
		if got := parseDirectives([]string{c.line}); !maps.Equal(got, c.want) {
			t.Errorf("%q: %+v, want %+v", c.line, got, c.want)
		}
	}
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, `"7"`: 7 * time.Second, `"`: 0, `""`: 0, `"7`: 0,
		`7"`: 0, "-1": 0, "+1": 0, "1.5": 0,
		"2147483646": 2147483646 * time.Second, "2147483647": 2147483647 * time.Second,
		"2147483648": 2147483647 * time.Second, strings.Repeat("9", 40): 2147483647 * time.Second,
	} {
		if got := parseSeconds(text); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	if lifetimeOr(absent, 5) != 5 || lifetimeOr(0, 5) != 0 {
		t.Error("a lifetime that is absent is not the shortest one")
	}
}

// A date has exactly the three forms of RFC 9110 section 5.6.7.
func TestParseDate_AcceptsThreeForms(t *testing.T) {
	t.Parallel()
	want := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	for _, s := range []string{
		"Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 gmt", "Sunday, 06-Nov-94 08:49:37 GMT",
		"Sun Nov  6 08:49:37 1994",
	} {
		if got, err := parseDate(s); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "0", "GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994  08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 94 08:49:37 GMT",
	} {
		if got, err := parseDate(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
	for text, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, " 7 ,9": 7 * time.Second, "x": 0} {
		if got := ageOf(http.Header{"Age": {text, "1"}}); got != want {
			t.Errorf("Age %q is %v, want %v", text, got, want)
		}
	}
}

func TestNormalForm_JoinsSpellings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lines []string
		want  []string
	}{
		{nil, nil},
		{[]string{"", ",", " , "}, nil},
		{[]string{"a,b", " c\t,,d"}, []string{"a", "b", "c", "d"}},
		{[]string{`"a,b",c`}, []string{`"a,b"`, "c"}},
		{[]string{`"a\",b",c`}, []string{`"a\",b"`, "c"}},
		{[]string{`"a\`}, []string{`"a\`}},
		{[]string{`"a`, "b,c"}, []string{`"a`, "b", "c"}}, // a quote ends with its line
		{[]string{`a\,b`}, []string{`a\`, "b"}},
	} {
		if got := membersOf(c.lines); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.lines, got, c.want)
		}
	}
	for _, c := range [][3]string{
		{"Accept-Language", "fr;q=0.5,de,EN-us,en-US;q=0.8", "de, en-US, en-US;q=0.8, fr;q=0.5"},
		{"Accept-Language", "b;q=0.5,a;q=x,c;q=0", "b;q=0.5, a;q=x, c;q=0"},
		{"X-Lang", " B,a ,B", "B, a, B"},
	} {
		if got := normalForm(c[0], []string{c[1]}); got != c[2] {
			t.Errorf("%s: %q is %q, want %q", c[0], c[1], got, c[2])
		}
	}
	for from, want := range map[string]string{
		"DE": "de", "en-us": "en-US", "ZH-hant-tw": "zh-Hant-TW", "sl-ROZAJ": "sl-rozaj", "x-a": "x-a",
		"de ; Q=0.8": "de;q=0.8",
		"de;q=1":     "de", "de;q=1.0": "de", "de;q=0.1": "de;q=0.1", "ENGL-1": "engl-1", "de-": "de-",
	} {
		if got := normalLanguage(from); got != want {
			t.Errorf("%q is %q, want %q", from, got, want)
		}
	}
	for member, want := range map[string]float64{"de": 1, "de;q=0.5": 0.5, "de;q=": 0, "de;q=x": 0} {
		if got := weightOf(member); got != want {
			t.Errorf("%q weighs %v, want %v", member, got, want)
		}
	}
}

func TestCodingsOf_ReturnsSet(t *testing.T) {
	t.Parallel()
	for i, name := range codings {
		if set := codingsOf([]string{name}); set != 1<<i || normalCodings(set) != name {
			t.Errorf("%s: %b, %s", name, set, normalCodings(set))
		}
	}
	for line, want := range map[string]string{
		"gzip , br, zstd,gzip": "gzip, br, zstd", "zstd;q=0.1,GZIP;Q=1.000": "gzip, zstd", "": "identity",
		"gzip;q=0, br": "br", "br;q=0.00,br": "identity", "gzip;q=x": "identity", "gzip;q=": "identity",
		"gzip;x=1": "identity", "*, identity;q=0, lzma, x-gzip": "identity", "gzip;q=1;x": "identity",
		" deflate\t; q=0.5 ,": "deflate",
	} {
		if got := normalCodings(codingsOf([]string{"lzma", line})); got != want {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
	if string(appendVariant(nil, &http.Request{Header: http.Header{}}, []string{"A"}, "")) ==
		string(appendVariant(nil, &http.Request{Header: http.Header{"A": {""}}}, []string{"A"}, "")) {
		t.Error("absent is empty")
	}
}

// An address field is bounded by its bytes, over all its lines.
func TestAreAddresses_BoundsBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []string
		want   bool
	}{
		{[]string{"192.0.2.1, [2001:DB8::a]:80"}, true},
		{[]string{strings.Repeat("1", 512)}, true},
		{[]string{strings.Repeat("1", 513)}, false},
		{[]string{strings.Repeat("1", 500), strings.Repeat("1", 12)}, true},
		{[]string{strings.Repeat("1", 500), strings.Repeat("1", 13)}, false},
		{[]string{"1", "g"}, false},
	} {
		if got := areAddresses(c.values); got != c.want {
			t.Errorf("%q: %v", c.values, got)
		}
	}
}

// An answer says how old it is, and for how long it is fresh.
func TestHitField_StatesLifetime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		fresh, resident time.Duration
		want            string
	}{
		{0, 0, "ttl=0"}, {time.Second - 1, 0, "ttl=0"}, {0, 1, "ttl=-1"}, {0, time.Second, "ttl=-1"},
		{0, time.Second + 1, "ttl=-2"}, {0, 60 * time.Second, "ttl=-60"}, {0, 61 * time.Second, "ttl=-61"},
		{60 * time.Second, 0, "ttl=60"}, {61 * time.Second, 0, "ttl=61"}, {time.Hour, 0, "ttl=3600"},
	} {
		a := &answer{fresh: c.fresh, received: now.Add(-c.resident)}
		for waited, detail := range map[bool]string{false: "", true: "; detail=collapsed"} {
			if got := hitField(a, now, waited); len(got) != 1 || got[0] != "hotparam; hit; "+c.want+detail {
				t.Errorf("%v after %v: %q", c.fresh, c.resident, got)
			}
		}
	}
	for age, want := range map[time.Duration]string{
		0: "0", time.Second - 1: "0", 59 * time.Second: "59", 60 * time.Second: "60", 61 * time.Second: "61",
	} {
		if got := ageField(age); len(got) != 1 || got[0] != want {
			t.Errorf("%v: %q", age, got)
		}
	}
	for _, c := range []struct {
		fwd, detail string
		stored      bool
		want        string
	}{
		{"miss", "", true, "hotparam; fwd=miss; stored"}, {"bypass", "cookie", false,
			"hotparam; fwd=bypass; detail=cookie"},
		{"stale", "x", true, "hotparam; fwd=stale; stored; detail=x"},
	} {
		if got := forwardedField(c.fwd, c.detail, c.stored); len(got) != 1 || got[0] != c.want {
			t.Errorf("%q", got)
		}
	}
}

// A pause is over at its end. A pause that is too long was set before the clock went back, and does not count.
func TestIsBackingOff_EndsAndIgnoresClockSteps(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for until, want := range map[time.Duration]bool{-1: false, 0: false, 1: true, time.Second: true,
		time.Second + 1: false} {
		if got := isBackingOff(now, now.Add(until)); got != want {
			t.Errorf("%v: %v", until, got)
		}
	}
	for status, want := range map[int]bool{499: false, 500: true, 501: false, 502: true, 503: true, 504: true,
		505: false} {
		if got := serverFailed(status); got != want {
			t.Errorf("%d: %v", status, got)
		}
	}
}

// The bytes of an answer are the sum of its parts, with their overhead.
func TestAnswer_ByteSizeIsSumOfParts(t *testing.T) {
	t.Parallel()
	a := &answer{body: make([]byte, 100), fields: []field{fieldOf("Ab", []string{"cde", "f"}), fieldOf("G", nil)}}
	if got := a.byteSize(); got != 768+100+(2+40+3+16+1+16)+(1+40) {
		t.Errorf("%d", got)
	}
	for _, c := range []struct{ capacity, want int }{{125, 125}, {126, 100}} { // a quarter may be unused
		a.setBody(make([]byte, 100, c.capacity))
		if got := cap(a.body); c.want == c.capacity && got != c.want || c.want != c.capacity && got >= c.capacity {
			t.Errorf("a body of 100 bytes in %d has %d", c.capacity, got)
		}
	}
}

// At most 16 informational responses wait for a client that reads slowly.
func TestFetch_BoundsInformationalResponses(t *testing.T) {
	t.Parallel()
	s := newStore(1 << 20)
	sh := &s.shards[0]
	e := sh.findEntry(&http.Request{}, []byte("t"), "k", true, "")
	f := newFetch(s, sh, e, nil, nil)
	for i := range 20 {
		f.WriteHeader(http.StatusSwitchingProtocols)
		f.WriteHeader(http.StatusEarlyHints)
		if got := len(f.interim); got != min(i+1, 16) {
			t.Fatalf("%d after %d", got, i+1)
		}
	}
}
