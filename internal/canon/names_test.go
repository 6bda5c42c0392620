package canon

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

var v400 = strings.Repeat("v", 400)

// vectors holds the vectors of docs/protocol.md.
var vectors = []struct {
	pairs                []decoded
	canonical, component string
}{
	{[]decoded{{"q", "1"}, {"b", "2"}}, "b=2&q=1", "b=2-q=1"},
	{[]decoded{{"topic_id", "123"}}, "topic_id=123", "topic__id=123"},
	{[]decoded{{"q", "a b"}, {"lang", "en"}}, "lang=en&q=a%20b", "lang=en-q=aZ20b"},
	{[]decoded{{"ver", "1.2.3"}}, "ver=1.2.3", "ver=1Z2E2Z2E3"},
	{[]decoded{{"id", "550e8400-e29b-41d4"}}, "id=550e8400-e29b-41d4", "id=550e8400Z2De29bZ2D41d4"},
	{[]decoded{{"q", "\u4e2d\u6587"}}, "q=%E4%B8%AD%E6%96%87", "q=ZE4ZB8ZADZE6Z96Z87"},
	{[]decoded{{"a", ""}}, "a=", "a=Ze"},
	{[]decoded{{"", "x"}}, "=x", "Ze=x"},
	{[]decoded{{"a", "1"}, {"a", "2"}}, "a=1&a=2", "a=1-a=2"},
	{[]decoded{{"p", "/v1/x"}}, "p=%2Fv1%2Fx", "p=Z2Fv1Z2Fx"},
	{[]decoded{{"t", "10:30|@#"}}, "t=10%3A30%7C%40%23", "t=10Z3A30Z7CZ40Z23"},
	{[]decoded{{"f", "{x},(y);z*?[0]"}}, "f=%7Bx%7D%2C%28y%29%3Bz%2A%3F%5B0%5D",
		"f=Z7BxZ7DZ2CZ28yZ29Z3BzZ2AZ3FZ5B0Z5D"},
	{[]decoded{{"_x_", "_"}}, "_x_=_", "Z5FxZ5F=Z5F"},
	{[]decoded{{"a__b", "c"}}, "a__b=c", "a____b=c"},
	{[]decoded{{"Z", "aZb"}}, "Z=aZb", "ZZ=aZZb"},
	{[]decoded{{"s", "100%"}}, "s=100%25", "s=100Z25"},
	{[]decoded{{"x", "a\nb\x00\xff"}}, "x=a%0Ab%00%FF", "x=aZ0AbZ00ZFF"},
	{[]decoded{{"n", "-1"}}, "n=-1", "n=Z2D1"},
	{[]decoded{{"b", "2-q=1"}}, "b=2-q%3D1", "b=2Z2DqZ3D1"},
	{[]decoded{{"b", "2&q=1"}}, "b=2%26q%3D1", "b=2Z26qZ3D1"},
	{[]decoded{{"tok", "aGVsbG8_d29ybGQ-=="}}, "tok=aGVsbG8_d29ybGQ-%3D%3D", "tok=aGVsbG8__d29ybGQZ2DZ3DZ3D"},
	{[]decoded{{"k", v400}}, "k=" + v400, fmt.Sprintf("k=%.158sZh%.32s", v400,
		fmt.Sprintf("%x", sha256.Sum256([]byte("k="+v400))))},
}

// exported replaces bytes as a statsd_exporter without a mapping does.
var exported = strings.NewReplacer(".", "_", "=", "_", "-", "_")

func escapeAll(s string) string {
	var out strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&out, "%%%02x", s[i])
	}
	return out.String()
}

func TestNames_EqualVectors(t *testing.T) {
	t.Parallel()
	all, n := NewSelector(Selection{All: true}), Names{Prefix: "hp.news"}
	for i, v := range vectors {
		var raw strings.Builder
		for _, p := range v.pairs {
			raw.WriteString("&" + escapeAll(p.name) + "=" + escapeAll(p.value))
		}
		if got := oracleCanonical(v.pairs); got != v.canonical {
			t.Errorf("%d: the oracle has %q", i+1, got)
		}
		for _, q := range []string{raw.String(), v.canonical} {
			if got := params(&all, q, wide); got != v.canonical {
				t.Errorf("%d: %q gives %q, want %q", i+1, q, got, v.canonical)
			}
		}
		key := hottype.NewKey("topic", v.canonical)
		metric := string(n.Append(nil, key))
		if want := "hp.news.topic.hot_param." + v.component; metric != want {
			t.Errorf("%d: metric %q, want %q", i+1, metric, want)
		}
		want := key
		if alias, ok := Alias([]byte(key), nil); ok {
			want = hottype.Key(alias)
		}
		for _, m := range []string{metric, exported.Replace(metric)} {
			if got, err := n.Parse([]byte(m)); got != want || err != nil {
				t.Errorf("%d: Parse(%q) = %q, %v, want %q", i+1, m, got, err, want)
			}
		}
	}
}

// TestNames_VectorsAreDocumented checks that the contract lists the tested vectors.
func TestNames_VectorsAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vectors[:21] {
		want := fmt.Sprintf("`%s` | `%s` |", v.canonical, v.component)
		line := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %d \|.*$`, i+1)).FindString(string(doc))
		if !strings.HasSuffix(line, want) {
			t.Errorf("%d: %q does not end in %q", i+1, line, want)
		}
	}
}

func TestNames_WriteAndReadMetrics(t *testing.T) {
	t.Parallel()
	hp1, plain := Names{Prefix: "news"}, Names{Prefix: "news", Style: StylePlain}
	long := "/" + strings.Repeat("a.b", 70)
	sum := fmt.Sprintf("%.32s", fmt.Sprintf("%x", sha256.Sum256([]byte(long))))
	hashed := "Z2F" + strings.Repeat("aZ2Eb", 31) + "aZh" + sum
	for _, c := range []struct {
		n           Names
		key, metric string
	}{
		{hp1, "topic", "news.topic.hot_param.Ze"},
		{hp1, "topic?!malformed", "news.topic.hot_param.Z21malformed"},
		{hp1, "topic?%21malformed=", "news.topic.hot_param.Z21malformed=Ze"},
		{hp1, "topic?=", "news.topic.hot_param.Ze=Ze"},
		{hp1, "hot_param?id=1", "news.hot__param.hot_param.id=1"},
		{hp1, "topic?hot_param=hot_param", "news.topic.hot_param.hot__param=hot__param"},
		{hp1, "a_hot_param_b?x=1", "news.a__hot__param__b.hot_param.x=1"},
		{hp1, "/", "news.Z2F.hot_param.Ze"},
		{hp1, "/a%20b=c&d/?id=1", "news.Z2FaZ2520bZ3DcZ26dZ2F.hot_param.id=1"},
		{hp1, "/_x_", "news.Z2F__xZ5F.hot_param.Ze"},
		{hp1, "!hp1:" + hashed + ".id=1", "news." + hashed + ".hot_param.id=1"},
		{plain, "topic?b=2&q=1", "news.topic.hot_param.b=2&q=1"},
		{plain, "topic?v=1.2", "news.topic.hot_param.v=1%2E2"},
		{plain, "topic", "news.topic.hot_param.Ze"},
		{plain, "topic?!malformed", "news.topic.hot_param.!malformed"},
		{plain, "/a.b/c%20d;?t=10%3A30", "news.%2Fa%2Eb%2Fc%2520d%3B.hot_param.t=10%3A30"},
	} {
		metric := c.n.Append(nil, hottype.Key(c.key))
		if string(metric) != c.metric {
			t.Errorf("Append(%q) = %q, want %q", c.key, metric, c.metric)
		}
		if got, err := c.n.Parse(metric); string(got) != c.key || err != nil {
			t.Errorf("Parse(%q) = %q, %v, want %q", metric, got, err, c.key)
		}
		if c.n.Style == StylePlain {
			continue
		}
		unmapped := exported.Replace(c.metric)
		if got, err := c.n.Parse([]byte(unmapped)); string(got) != c.key || err != nil {
			t.Errorf("Parse(%q) = %q, %v, want %q", unmapped, got, err, c.key)
		}
	}
	if got := string(hp1.Append(nil, hottype.Key(long))); got != "news."+hashed+".hot_param.Ze" {
		t.Errorf("a long path becomes %q", got)
	}
	if got, ok := Alias([]byte(long), nil); !ok || string(got) != "!hp1:"+hashed+".Ze" {
		t.Errorf("its alias is %q, %v", got, ok)
	}
}

func TestNamesParse_RejectsForeignAndBroken(t *testing.T) {
	t.Parallel()
	hp1, plain := Names{Prefix: "a.news"}, Names{Prefix: "a.news", Style: StylePlain}
	for _, m := range []string{"", "a", "a.news", "a.news.", "a.newsx.topic.hot_param.Ze", "b.news.topic.hot_param.Ze",
		"a.news.api.requests", "a.news.hot_param.id=1", "a_news_api_requests", "axnews.topic.hot_param.Ze", "a_newsx"} {
		for _, n := range []Names{hp1, plain} {
			if key, err := n.Parse([]byte(m)); !errors.Is(err, ErrForeign) || key != "" {
				t.Errorf("%s: Parse(%q) = %q, %v, want ErrForeign", n.Style, m, key, err)
			}
		}
	}
	for _, c := range []struct {
		n        Names
		resource string
		part     string
	}{
		{hp1, "topic", ""}, {hp1, "", "Ze"}, {hp1, "Ze", "Ze"}, {hp1, "Topic", "Ze"}, {hp1, "Z21hp1Z3A", "Ze"},
		{hp1, "to_pic", "Ze"}, {hp1, "topic", "id"}, {hp1, "topic", "id=1-"}, {hp1, "topic", "id=1-b"},
		{hp1, "topic", "id="}, {hp1, "topic", "=1"}, {hp1, "topic", "id=1=2"}, {hp1, "topic", "id-1"},
		{hp1, "topic", "b=1-a=2"}, {hp1, "topic", "a=2-a=1"}, {hp1, "topic", "a=Z61"}, {hp1, "topic", "a=Z5A"},
		{hp1, "topic", "a=Z2f"}, {hp1, "topic", "a=Z2"}, {hp1, "topic", "a=Zx"}, {hp1, "topic", "a=xZ5Fx"},
		{hp1, "topic", "a=__x"}, {hp1, "topic", "a=x__"}, {hp1, "topic", "a=x___"}, {hp1, "topic", "a=xZe"},
		{hp1, "topic", "a=Zex"}, {hp1, "topic", "a=\xff"}, {hp1, "topic", "a=a b"}, {hp1, "topic", "a=b.c"},
		{hp1, "topic", "a=" + v400}, {hp1, "topic", "a=Zh0123"}, {hp1, "topic", "a=Zh" + strings.Repeat("A", 32)},
		{hp1, "Z2FZ3F", "Ze"}, {hp1, "Z2Fa", "a=Zh0123"}, {hp1, "Zh" + strings.Repeat("a", 32), "a"},
		{plain, "topic", "id"}, {plain, "topic", "b=1&a=2"}, {plain, "topic", "a=%61"}, {plain, "topic", "a=%2f"},
		{plain, "topic", "a=b.c"}, {plain, "topic", ""}, {plain, "to%70ic", "Ze"}, {plain, "%2f", "Ze"},
		{plain, "Topic", "Ze"},
	} {
		m := "a.news." + c.resource + ".hot_param." + c.part
		if key, err := c.n.Parse([]byte(m)); err == nil || errors.Is(err, ErrForeign) || key != "" {
			t.Errorf("%s: Parse(%q) = %q, %v, want an error", c.n.Style, m, key, err)
		}
	}
}

func TestValidate_RejectsInvalidNamesAndBounds(t *testing.T) {
	t.Parallel()
	for prefix, ok := range map[string]bool{"a": true, "a.b_2.c": true, "": false, "A": false, "a.": false, ".a": false,
		"a..b": false, "_a": false, "a-b": false, "1a": false, "a\n": false} {
		if err := (Names{Prefix: prefix}).Validate(); (err == nil) != ok {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
	if err := (Names{Prefix: "a", Style: "graphite"}).Validate(); err == nil {
		t.Error("an unknown style passes")
	}
	if err := DefaultQueryBounds().Validate(); err != nil {
		t.Error(err)
	}
	if err := (QueryBounds{}).Validate(); err == nil {
		t.Error("zero limits pass")
	}
}

// TestNames_EqualOracle checks that the encoder writes the same as the oracle; that the decoder returns the key, or
// its alias if it was hashed; that an exported name decodes to the same key; and that Alias returns true exactly for
// hashed names.
func TestNames_EqualOracle(t *testing.T) {
	t.Parallel()
	resources := rapid.OneOf(rapid.SampledFrom([]string{"topic", "a_b", "x__"}),
		rapid.Map(anyText, func(s string) string { return "/" + strings.ReplaceAll(s, "?", "!") }))
	rapid.Check(t, func(t *rapid.T) {
		pairs, resource := anyPairs.Draw(t, "pairs"), resources.Draw(t, "resource")
		key := hottype.NewKey(resource, oracleCanonical(pairs))
		want := "p." + oracleJoin(oracleTokens(resource), resource) + ".hot_param." + oracleComponent(pairs)
		n := Names{Prefix: "p"}
		got := string(n.Append(nil, key))
		if got != want {
			t.Fatalf("Append(%q) = %q, want %q", key, got, want)
		}
		back := key
		alias, hashed := Alias([]byte(key), nil)
		if hashed {
			back = hottype.Key(alias)
			if m := string(n.Append(nil, back)); m != got {
				t.Fatalf("alias %q becomes %q, want %q", back, m, got)
			}
		} else if len(alias) > 0 {
			t.Fatalf("no alias, but %q", alias)
		}
		for _, m := range []string{got, exported.Replace(got)} {
			if k, err := n.Parse([]byte(m)); k != back || err != nil {
				t.Fatalf("Parse(%q) = %q, %v, want %q", m, k, err, back)
			}
		}
		n.Style = StylePlain
		m := n.Append(nil, key)
		if k, err := n.Parse(m); k != key || err != nil {
			t.Fatalf("Parse(%q) = %q, %v, want %q", m, k, err, key)
		}
		if strings.ContainsAny(string(m), ":|@,;#/ \n") || strings.Count(string(m), ".") != 3 {
			t.Fatalf("%q would be split", m)
		}
		if err := Check(key); err != nil {
			t.Fatal(err)
		}
	})
}

// A byte that is escaped in HP1 has two upper-case digits.
func TestNamesParse_RejectsLowerCaseEscapes(t *testing.T) {
	t.Parallel()
	names := Names{Prefix: "x", Style: StyleHP1}
	for text, want := range map[string]string{"Z2F": "/", "Z2FaZ2Fb": "/a/b", "Z2FaZ5F": "/a_", "Z2G": "", "ZG2": "", "Z2": "",
		"Zf2": "",
		"Z2f": "", "Z:2": "", "Z2:": ""} {
		key, err := names.Parse([]byte("x." + text + ".hot_param.Ze"))
		if (err == nil) != (want != "") || err == nil && key.Resource() != want {
			t.Errorf("%s: %q, %v, want %q", text, key, err, want)
		}
	}
}

func TestUnhex_ReadsHexDigits(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		want := byte(16)
		if n, err := strconv.ParseUint(string(rune(c)), 16, 8); err == nil {
			want = byte(n)
		}
		upper := want
		if c >= 'a' {
			upper = 16
		}
		if got := unhex(byte(c)); got != want || unhexUpper(byte(c)) != upper {
			t.Errorf("byte %d: %d and %d, want %d and %d", c, got, unhexUpper(byte(c)), want, upper)
		}
	}
}

// A metric as Prometheus exports it has "_" for "." and is recognised only in style HP1.
func TestCutMetric_RecognizesExportedNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		style  Style
		metric string
		want   bool
	}{
		{StyleHP1, "a.b.topic.hot_param.Ze", true}, {StyleHP1, "a_b_topic_hot_param_Ze", true},
		{StylePlain, "a_b_topic_hot_param_Ze", false}, {StyleHP1, "a_c_topic_hot_param_Ze", false},
		{StyleHP1, "a_b-topic_hot_param_Ze", false}, {StyleHP1, "axb_topic_hot_param_Ze", false},
		{StyleHP1, "a_b", false}, {StyleHP1, "a_b_", false},
	} {
		_, _, ok := Names{Prefix: "a.b", Style: c.style}.cutMetric([]byte(c.metric))
		if ok != c.want {
			t.Errorf("style %v: %s: %v", c.style, c.metric, ok)
		}
	}
}
