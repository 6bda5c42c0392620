package canon

import (
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func TestCheck_RejectsOtherSpellingsWithHint(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"topic", "topic?id=42", "/a/b?x=", "topic?!malformed", "/?a=1&a=1",
		"!hp1:topic.aZh" + strings.Repeat("0", 32)} {
		if err := Check(hottype.Key(good)); err != nil {
			t.Errorf("Check(%q) = %v", good, err)
		}
	}
	for bad, hint := range map[string]string{"topic?id=a b": `"topic?id=a%20b"`, "topic?b=1&a": `"topic?a=&b=1"`,
		"topic?": `"topic"`, "topic?q=中": `"topic?q=%E4%B8%AD"`, "topic?a=%2f": `"topic?a=%2F"`, "Topic": "", "": "",
		"?a=1": ""} {
		if err := Check(hottype.Key(bad)); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("Check(%q) = %v, want a hint at %s", bad, err, hint)
		}
	}
}

// Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestNames_AllocateNothing(t *testing.T) {
	n, buf := Names{Prefix: "news"}, make([]byte, 0, 4096)
	keys := []hottype.Key{"topic?id=42", hottype.Key("topic?k=" + v400)}
	for _, key := range keys {
		metric := n.Append(nil, key)
		raw := []byte(key)
		for what, run := range map[string]func(){
			"append": func() { buf = n.Append(buf[:0], key) },
			"parse":  func() { buf, _ = n.AppendKey(buf[:0], metric) },
			"alias":  func() { buf, _ = Alias(raw, buf[:0]) },
		} {
			if got := testing.AllocsPerRun(50, run); got != 0 {
				t.Errorf("%s %.20q: %v allocations", what, key, got)
			}
		}
	}
	foreign := []byte("news.api.requests")
	if got := testing.AllocsPerRun(50, func() { _, _ = n.Parse(foreign) }); got != 0 {
		t.Errorf("a foreign name: %v allocations", got)
	}
}

// The decoder accepts a pair of bytes behind a Z exactly if the encoder writes it.
func TestNamesParse_AcceptsOnlyWrittenEscapes(t *testing.T) {
	t.Parallel()
	n, taken := Names{Prefix: "p"}, map[hottype.Key]bool{}
	for i := range 1 << 16 {
		metric := "p.topic.hot_param.id=aZ" + string([]byte{byte(i >> 8), byte(i)}) + "b"
		key, err := n.Parse([]byte(metric))
		if err != nil {
			continue
		}
		if again := string(n.Append(nil, key)); again != metric {
			t.Errorf("%q gives %q, which is written %q", metric, key, again)
		}
		taken[key] = true
	}
	for c := range 256 {
		key := hottype.Key(appendEscape([]byte("topic?id=a"), '%', byte(c)))
		if !plain[byte(c)] && !taken[key+"b"] {
			t.Errorf("%q has no metric", key+"b")
		}
	}
}

// FuzzComponent checks that the decoder accepts only text that the encoder writes, for any input.
func FuzzComponent(f *testing.F) {
	for _, v := range vectors {
		f.Add("topic", v.component)
		f.Add("Z2Fa__b", exported.Replace(v.component))
	}
	f.Fuzz(func(t *testing.T, resource, component string) {
		n := Names{Prefix: "p"}
		metric := "p." + resource + ".hot_param." + component
		key, err := n.Parse([]byte(metric))
		if err != nil {
			return
		}
		again := string(n.Append(nil, key))
		if exported.Replace(again) != exported.Replace(metric) {
			t.Errorf("%q gives %q, which gives %q", metric, key, again)
		}
		if err := Check(key); err != nil {
			t.Error(err)
		}
		n.Style = StylePlain
		if _, err := n.Parse([]byte(metric)); err == nil && len(component) == 0 {
			t.Errorf("plain takes %q", metric)
		}
	})
}
