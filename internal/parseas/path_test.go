package parseas

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPathAppend_WritesCanonicalSpelling(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		preset, path, want string
	}{
		{"express4", "/Topic/", "/Topic"}, // the comparison folds
		{"express4", "/topic//", "/topic//"},
		{"express4", "/%74opic", "/%74opic"},
		{"express4", "/caf%c3%a9", "/caf%C3%A9"},
		{"express4", "/caf\xc3\xa9", "/caf%C3%A9"},
		{"django", "/%74opic/%2541", "/topic/%2541"},
		{"django", "/a%2fb", "/a/b"},
		{"go-servemux", "/a%2fb;c%zz", "/a%2Fb%3Bc%25zz"},
		{"flask", "///a//b", "/a//b"},
		{"fastapi", "/topic%0a", "/topic"},
		{"fastapi", "/topic%0a%0a", "/topic%0A%0A"},
		{"nginx", "/x%2f..%2f/./topic", "/topic"},
		{"nginx", "/../../topic/..", "/"},
		{"nginx", "/a//b/", "/a/b/"},
		{"nginx", "//", "/"},
		{"nginx", "*", "*"},
		{"nginx", "", ""},
		{"node-URL", "//h:80/topic", "/topic"},
		{"node-URL", "//h", "/"},
		{"node-URL", "///h/topic", "/topic"},
		{"node-URL", "/.%5Ctopic", "/.%5Ctopic"},
		{"sinatra", `/.\topic`, "/topic"},
		{"node-URL", "/x/%2e%2E/topic", "/topic"},
		{"node-URL", "/.../topic", "/.../topic"},
		{"tomcat-servlet", "/x;a=1/..;b/topic;c", "/topic"},
		{"spring-boot", "/topic;x/", "/topic/"},
		{"spring-boot", "/topic%3bx", "/topic%3Bx"},
		{"rails", "//topic.html//", "/topic"},
		{"rails", "/a.b.c", "/a.b.c"},
		{"rails", "/.json", "/.json"},
		{"rails", "/topic.", "/topic."},
	} {
		tr, ok := Preset(c.preset)
		if got := string(tr.Path.Append(nil, c.path)); got != c.want || !ok {
			t.Errorf("%s: %q = %q, want %q", c.preset, c.path, got, c.want)
		}
	}
	for short, long := range aliases {
		a, ok := Preset(short)
		b, _ := Preset(long)
		if !ok || a.Path != b.Path || a.Preset != long {
			t.Errorf("%s is not %s", short, long)
		}
	}
}

// anyPath draws paths of many bytes that some upstream reads in its own way.
var anyPath = rapid.Custom(func(t *rapid.T) string {
	return "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
		"/", "/", ".", ".", "..", "%2e", "%2F", "%5c", `\`, ";", "a", "B", ".json", "%0a", "%0A", "%", "%25", "%41",
		"\xff", "#", " ", "%20", "%C3", "%3b", "a.b", "aa",
	}), 0, 12).Draw(t, "path"), "")
})

// anyTraits draws any combination of traits.
var anyTraits = rapid.Custom(func(t *rapid.T) Path {
	yes := func(name string) bool { return rapid.Bool().Draw(t, name) }
	return Path{
		Decode: yes("decode"), DotSegments: yes("dots"), EncodedSlash: yes("slash"), Backslash: yes("back"),
		PathParams: yes("params"), Suffix: yes("suffix"), FinalNewline: yes("newline"), Authority: yes("authority"),
		TrailingSlash: rapid.SampledFrom([]Slashes{SlashesKeep, SlashesOne, SlashesAll}).Draw(t, "trailing"),
		MergeSlashes:  rapid.SampledFrom([]Merge{MergeNone, MergeLeading, MergeAll}).Draw(t, "merge"),
	}
})

func checkPath(t interface{ Fatalf(string, ...any) }, p Path, path string) {
	once := string(p.Append(nil, path))
	if twice := string(p.Append([]byte("before"), once)); twice != "before"+once {
		t.Fatalf("%+v: %q gives %q, and that %q", p, path, once, twice)
	}
	if strings.HasPrefix(path, "/") && (!strings.HasPrefix(once, "/") || strings.ContainsAny(once, "?;*\\ \n#")) {
		t.Fatalf("%+v: %q gives %q", p, path, once)
	}
	for _, name := range Presets() {
		q := presets[name].Path
		if q.Simply(p) && Simple(path) && string(q.Append(nil, path)) != once {
			t.Fatalf("%q is called simple, and %+v reads it otherwise than %s", path, p, name)
		}
	}
	if Canonical(path) && once != path {
		t.Fatalf("%+v: %q is called canonical and gives %q", p, path, once)
	}
}

// A canonical path is its own canonical spelling, with any traits.
func TestPath_IsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { checkPath(t, anyTraits.Draw(t, "traits"), anyPath.Draw(t, "path")) })
}

func FuzzPath(f *testing.F) {
	f.Add("/x/..;/topic.json//%2e%2f%5c%0a", 8)
	names := Presets()
	f.Fuzz(func(t *testing.T, path string, preset int) {
		tr, _ := Preset(names[uint(preset)%uint(len(names))])
		checkPath(t, tr.Path, path)
	})
}
