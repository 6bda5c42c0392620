package visitorpass_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

// TestStrip_IsSplittingAtSemicolons strips random lines, and compares the cookies that are left with the cookies
// before.
func TestStrip_IsSplittingAtSemicolons(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cookie := rapid.SampledFrom([]string{"a=1", "hotparam_12ef=x", "__Host-hotparam_class=member.x", "hotparam_=",
			"", "hotparam_class", "__Host-a=\"b\"", "hotparam_99ff="})
		lines := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(cookie, 1, 5).Draw(t, "cookies"),
				rapid.SampledFrom([]string{";", "; ", ";  "}).Draw(t, "separator"))
		}), 0, 3).Draw(t, "lines")
		header := map[string][]string{"Cookie": slices.Clone(lines)}
		stripped := visitorpass.Strip(header)
		want := slices.DeleteFunc(cookiesOf(lines), func(c string) bool { return ownCookies[c] })
		if got := cookiesOf(header["Cookie"]); !slices.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", lines, header["Cookie"], want)
		}
		if stripped != (len(want) < len(cookiesOf(lines))) {
			t.Fatalf("%q: stripped is %v", lines, stripped)
		}
		if !stripped && !slices.Equal(header["Cookie"], lines) || visitorpass.Strip(header) {
			t.Fatalf("%q: %q", lines, header["Cookie"])
		}
	})
}

// ownCookies holds the cookies of passes in the lines of TestStrip_IsSplittingAtSemicolons.
var ownCookies = map[string]bool{"hotparam_12ef=x": true, "hotparam_99ff=": true,
	"__Host-hotparam_class=member.x": true}

// cookiesOf returns the cookies of lines that are not empty.
func cookiesOf(lines []string) (cookies []string) {
	for _, line := range lines {
		for c := range strings.SplitSeq(line, ";") {
			if c = strings.TrimSpace(c); c != "" {
				cookies = append(cookies, c)
			}
		}
	}
	return cookies
}

func FuzzCookies(f *testing.F) {
	client := netip.MustParseAddr("192.0.2.7")
	p := passesAt("", noon)
	visit, class := p.Issue(noon, client), p.Grant(noon, "member")
	for _, seed := range []string{"", ";", "a=b", visit, class, "__Host-" + visit + "; " + class,
		visit[:14] + "; " + visit, class[:15] + ".", "hotparam_class=" + strings.Repeat("m", 300), visit + "\n",
		visit + ",a=b", ";;" + class + ";", "\"" + visit + "\"", "hotparam_hotparam_class=member." + visit[14:],
		visit + ";\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		age, ok := p.Age(noon.Add(time.Minute), line, client)
		if ok && (age != time.Minute || !strings.Contains(line, visit)) {
			t.Fatalf("%q has the age %v", line, age)
		}
		name, granted := p.Granted(noon, line)
		if granted && (name != "member" || !strings.Contains(line, class)) {
			t.Fatalf("%q is of class %q", line, name)
		}
		header := map[string][]string{"Cookie": {line}}
		stripped := visitorpass.Strip(header)
		if rest := strings.Join(header["Cookie"], ""); len(rest) > len(line) || !stripped && rest != line {
			t.Fatalf("%q became %q", line, rest)
		}
		if visitorpass.Strip(header) {
			t.Fatalf("%q was stripped twice", line)
		}
	})
}

func BenchmarkPasses(b *testing.B) {
	client := netip.MustParseAddr("192.0.2.7")
	p := passesAt("", noon)
	pass := p.Issue(noon, client)
	name, _, _ := strings.Cut(pass, "=")
	for _, c := range []struct{ name, cookies string }{
		{"none", ""}, {"others", strings.Repeat("session=1234567890; ", 10)}, {"own", pass},
		{"forged", fmt.Sprintf("%s%s; __Host-%[1]s%[2]s", pass[:len(pass)-1], "A")},
		{"64KB", strings.Repeat("a=b; ", 13000)}, {"64KBOfPrefixes", strings.Repeat("hotparam_", 7000)},
		{"64KBOfOwn", strings.Repeat(name+"=; ", 3900)},
	} {
		b.Run("age/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Age(noon, c.cookies, client)
			}
		})
		b.Run("strip/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			header := map[string][]string{}
			lines := []string{c.cookies}
			for b.Loop() {
				header["Cookie"] = lines
				visitorpass.Strip(header)
			}
		})
	}
	b.Run("issue", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Issue(noon, client)
		}
	})
}
