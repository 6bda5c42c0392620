package learn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/operator/learn"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// written learns from a log and returns the file, or "" if the log has nothing to learn from. The file and the page for
// people must be printable, and the file a configuration.
func written(t interface {
	Helper()
	Fatalf(string, ...any)
}, log []byte) (string, *rules.Set) {
	t.Helper()
	p, err := learn.Learn(context.Background(), learn.Config{}, sources(log))
	if err != nil {
		if !errors.Is(err, learn.ErrNothing) && !strings.Contains(err.Error(), "malformed") {
			t.Fatalf("%v", err)
		}
		printable(t, err.Error())
		return "", nil
	}
	var file, page bytes.Buffer
	if err := errors.Join(p.WriteYAML(&file), p.Write(&page)); err != nil {
		t.Fatalf("%v", err)
	}
	printable(t, file.String()+page.String())
	set, err := rules.Parse("hotparam.yaml", file.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, &file)
	}
	return file.String(), set
}

func printable(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			t.Fatalf("%q is written: %q", r, text)
		}
	}
}

// hostile are texts that clients choose to break a file, a terminal or a reader.
var hostile = []string{
	strings.Repeat("A", 8000), "\x00", "\x1b[2J\x1b]0;owned\a", "\u202e\u2066", "a: b", "- x", "# x", `"]}`, "'", "{x}",
	"{$}", "*", "&a", "!!python",
	"\xff\xfe", "%00%0a%0drules:", "%22%5d%7d%0a", "<script>", "=cmd()", "\\x0arules:\\x0a", "path.id", "header.x",
	"utm_*", "\u2028", "ns:[]",
}

func TestWriteYAML_IsSafeForHostileLogs(t *testing.T) {
	t.Parallel()
	for i, text := range hostile {
		var combined, events strings.Builder
		for n := range 600 {
			who := fmt.Sprintf("192.0.2.%d", n%250)
			target := fmt.Sprintf("/%s/x?%s=%d&id=%s&%s%d=1&z%s=%s", text, text, n%20, text, text, n, text, text)
			fmt.Fprintf(&combined, "%s - %s [14/Nov/2023:22:%02d:%02d +0000] \"GET %s HTTP/1.1\" 200 1 \"%s\" \"%s\"\n",
				who, text, n/60, n%60, target, text, text)
			fmt.Fprintf(&events, "%d\t%s%d\tGET\t%s\n", 1_700_000_000+n, text, n%30, target)
			fmt.Fprintf(&events, "%d\t%sloop\tGET\t/\n", 1_700_000_000+n, text)
			fmt.Fprintf(&events, "%d\tc%d\tGET\t/x?%s=%d\n", 1_700_000_000+n, n%30, text, n%20)
		}
		for form, log := range map[string]string{"combined": combined.String(), "events": events.String()} {
			file, _ := written(t, []byte(log))
			if len(file) > 20_000 {
				t.Errorf("%d, %s: %d bytes are written", i, form, len(file))
			}
		}
	}
}

// Any log leads to a safe file or an error with its reason, and the same log leads to the same file.
func TestWriteYAML_IsSafeAndReproducible(t *testing.T) {
	t.Parallel()
	piece := rapid.OneOf(rapid.SampledFrom(hostile[1:]),
		rapid.SampledFrom([]string{"id", "1", "2", "topic", "/", "?", "&", "=", "\t", " ", "utm_source"}))
	rapid.Check(t, func(t *rapid.T) {
		var log strings.Builder
		for n := range rapid.IntRange(0, 40).Draw(t, "lines") {
			target := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "target"), "")
			for k := range rapid.SampledFrom([]int{1, 30}).Draw(t, "times") {
				fmt.Fprintf(&log, "%d\t10.0.0.%d\tGET\t/%s\n", 1_700_000_000+n*7, k, target)
			}
		}
		first, _ := written(t, []byte(log.String()))
		if again, _ := written(t, []byte(log.String())); again != first {
			t.Fatalf("two files of one log:\n%s\n%s", first, again)
		}
	})
}

func FuzzLearn(f *testing.F) {
	f.Add([]byte("1700000000\t192.0.2.1\tGET\t/topic?id=1&x=%zz\n"))
	f.Add([]byte(`192.0.2.1 - - [14/Nov/2023:22:13:20 +0000] "GET /a/{$}?%00=1 HTTP/1.1" 404 1 "-" "bot"` + "\n"))
	f.Add([]byte(`{"t":1700000000,"client":"c","method":"GET","target":"/\u0000?a=b","status":-5}` + "\n"))
	f.Fuzz(func(t *testing.T, log []byte) { written(t, log) })
}

func TestLearn_RejectsLogsWithoutRequests(t *testing.T) {
	t.Parallel()
	_, err := learn.Learn(context.Background(), learn.Config{}, sources(nil))
	if !errors.Is(err, learn.ErrNothing) {
		t.Errorf("an empty log: %v", err)
	}
	_, err = learn.Learn(context.Background(), learn.Config{}, sources([]byte("no\x1b[2J log\nneither\n")))
	if err == nil || !strings.Contains(err.Error(), "all 2 lines are malformed") ||
		!strings.Contains(err.Error(), `no\x1b[2J log`) {
		t.Errorf("no line is good: %v", err)
	}
}

// A log of a proxy names no clients: nothing is said about them.
func TestLearn_ProposesNoWindowsForProxiedLogs(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for n := range 3000 {
		fmt.Fprintf(&log,
			"10.0.0.%d - - [14/Nov/2023:22:%02d:%02d +0000] \"GET /t?id=%d HTTP/1.1\" 200 1 \"-\" \"Mozilla/5.0\"\n",
			n%3, n/60, n%60, n*n%211)
	}
	file, set := written(t, []byte(log.String()))
	if set.IP.Fixed != nil || set.IP.Sliding != nil || !strings.Contains(file, "private addresses") {
		t.Error(file)
	}
	for _, r := range set.Rules {
		if r.Hot.MinClients != 0 {
			t.Errorf("rule %s wants %d clients", r.Name, r.Hot.MinClients)
		}
	}
}

// If nearly every line has a client of its own, or all have one, the clients are not believed.
func TestLearn_DoubtsClientsThatAreAllOrOne(t *testing.T) {
	t.Parallel()
	for want, clientOf := range map[string]func(n int) int{
		"nearly every line has a client of its own": func(n int) int { return n },
		"all lines have one client":                 func(int) int { return 7 },
	} {
		var log strings.Builder
		for n := range 3000 {
			who := clientOf(n)
			const line = "81.2.%d.%d - - [14/Nov/2023:22:%02d:%02d +0000] \"GET /t?id=%d HTTP/1.1\" 200 1\n"
			fmt.Fprintf(&log, line, who/250,
				who%250, n/60, n%60, n*n%211)
		}
		file, set := written(t, []byte(log.String()))
		if set.IP.Fixed != nil || set.IP.Sliding != nil ||
			!strings.Contains(strings.ReplaceAll(file, "\n# ", " "), want) {
			t.Error(file)
		}
	}
}

// Where most requests keep a key of their own, the file says by which parameters.
func TestLearn_NamesParamsOfUniqueKeys(t *testing.T) {
	t.Parallel()
	words := []string{"red", "blue", "shoe", "hat", "coat", "bag", "men", "kids", "sale", "big", "new"}
	for name, c := range map[string]struct {
		target func(r *rand.Rand) string
		want   string
	}{
		"searches": {func(r *rand.Rand) string {
			query := "/search?q=" + words[r.IntN(11)]
			for range 3 {
				query += "+" + words[r.IntN(11)]
			}
			return fmt.Sprint(query, "+", r.IntN(900))
		}, "requested twice: q of /search (3,000 requests, a new value in 100 %)."},
		"documents": {func(r *rand.Rand) string { return fmt.Sprintf("/doc/%x/print", r.Uint64()) },
			"requested twice: id of /doc/{id}/print (3,000 requests, a new value in 100 %)."},
		"pages": {func(r *rand.Rand) string { return fmt.Sprint("/topic?id=", r.IntN(300)) }, ""},
	} {
		var log strings.Builder
		r := rand.New(rand.NewPCG(1, 1))
		for n := range 3000 {
			fmt.Fprintf(&log, "81.2.%d.%d - - [14/Nov/2023:22:%02d:%02d +0000] \"GET %s HTTP/1.1\" 200 1\n",
				r.IntN(3), r.IntN(250), n/60, n%60, c.target(r))
		}
		file, _ := written(t, []byte(log.String()))
		text := strings.ReplaceAll(file, "\n# ", " ")
		if found := strings.Contains(text, "Nothing can be found"); found != (c.want != "") ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s: no %q in\n%s", name, c.want, file)
		}
	}
}

// The proxies that name clients in the log are trusted by its rules.
func TestLearn_TrustsProxies(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for n := range 3000 {
		fmt.Fprintf(&log, "81.2.0.%d, 198.51.100.9 - - [14/Nov/2023:22:%02d:%02d +0000] \"GET /t?id=%d HTTP/1.1\" 200 1\n",
			n%250, n/60, n%60, n*n%211)
	}
	network := netip.MustParsePrefix("198.51.100.0/24")
	p, err := learn.Learn(context.Background(), learn.Config{TrustedProxies: []netip.Prefix{network}},
		sources([]byte(log.String())))
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := p.WriteYAML(&file); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Parse("hotparam.yaml", file.Bytes())
	if err != nil || !slices.Equal(set.IP.TrustedProxies, []netip.Prefix{network}) || p.Outcome.Ordinary != 250 {
		t.Errorf("%d ordinary clients, %v:\n%s", p.Outcome.Ordinary, err, &file)
	}
}

// In the first real log the viral values are found. For the second log, whose time is squeezed, only the catch-all is
// proposed.
func TestLearn_FindsViralValuesOfRealLogs(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("HOTPARAM_TRAFFIC")
	if dir == "" {
		t.Skip("HOTPARAM_TRAFFIC names no directory with real logs")
	}
	log, err := os.ReadFile(filepath.Join(dir, "usagov_bitly_2012-03-16.events.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	p, file, set := learned(t, log)
	r := set.Rules[0]
	if len(set.Rules) != 2 || r.Match.Path != "/r" || len(r.Params) != 1 || r.Params[0].Name != "g" ||
		p.Outcome.Hurt > 0 {
		t.Error(file)
	}
	rep, err := replay.Run(context.Background(), replay.Config{Rules: set}, replay.Source{Reader: bytes.NewReader(log)})
	if err != nil {
		t.Fatal(err)
	}
	found := fmt.Sprint(keysOf(rep.Hot))
	if !strings.Contains(found, "r?g=vNJS4H") || !strings.Contains(found, "r?g=wcndER") || len(keysOf(rep.Hot)) > 4 {
		t.Errorf("hot %s\n%s", found, file)
	}
	if log, err = os.ReadFile(filepath.Join(dir, "semicomplete_apache_2015.log")); err != nil {
		t.Fatal(err)
	}
	if _, file, set = learned(t, log); len(set.Rules) != 1 || !set.Rules[0].IsCatchAll() ||
		!strings.Contains(file, "squeezed") || !strings.Contains(file, "46.105.14.53") {
		t.Error(file)
	}
}

// A value of few requests that takes much of the upstream's time is named, from any client. A log without times, or
// with times that do not depend on the value, has no expensive value.
func TestLearn_NamesExpensiveValues(t *testing.T) {
	t.Parallel()
	page := func(times string, took func(value int) float64) string {
		var log bytes.Buffer
		rnd := rand.New(rand.NewPCG(1, 1))
		for i := range 6000 {
			value := rnd.IntN(400)
			if i%50 == 0 {
				value = 1000
			}
			fmt.Fprintf(&log, `{"t":%d.%03d,"client":"10.0.%d.%d","method":"GET","target":"/report?filter=v%d","status":200`,
				1_700_000_000+i/10, i%10*100, i%60, i%7, value)
			if times != "" {
				fmt.Fprintf(&log, `,"%s":%g`, times, took(value))
			}
			log.WriteString("}\n")
		}
		p, err := learn.Learn(t.Context(), learn.Config{}, sources(log.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := errors.Join(p.WriteYAML(&text), p.Write(&text)); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	expensive := func(value int) float64 {
		if value == 1000 {
			return 800
		}
		return 11
	}
	const want = "filter=v1000 of /report is 2.0 % of the requests and takes 60 % of the time (800ms each, others 11ms)"
	if got := page("ms", expensive); !strings.Contains(got, want) || strings.Count(got, "Expensive:") > 2 {
		t.Errorf("no %q in\n%s", want, got)
	}
	for _, got := range []string{page("", expensive), page("ms", func(int) float64 { return 11 })} {
		if strings.Contains(got, "Expensive") {
			t.Errorf("nothing is expensive in\n%s", got)
		}
	}
}
