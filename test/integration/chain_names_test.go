package integration_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/graphite"
	"github.com/hotparam/pipeline/test/internal/program"
)

var chainNames = canon.Names{Prefix: "hotparam.site", Style: canon.StyleHP1}

// Names return unchanged from the real statsd with its default configuration, carbon and graphite-web, by each way of
// asking for them, and from statsd_exporter with and without a mapping.
func TestNamesSurviveTheChain(t *testing.T) {
	// Only the addresses are set; all else is statsd's default: a flush every ten seconds, names cleaned, idle names
	// kept.
	c := startChain(t,
		`{graphiteHost: "127.0.0.1", graphitePort: 2003, port: 8125, address: "127.0.0.1", mgmt_port: 8126, mgmt_address: "127.0.0.1"}`)
	exporter, exporterUDP := startExporter(t, "")
	mapped, mappedUDP := startExporter(t,
		"mappings:\n- match: \"hotparam.site.*.hot_param.*\"\n"+
			"  name: hot_param\n  labels: {resource: \"$1\", component: \"$2\"}\n")
	counts := chainKeys(t)
	for _, to := range []string{c.statsd, exporterUDP, mappedUDP} {
		sendCounts(t, to, counts)
	}
	if !t.Run("poller", func(t *testing.T) { checkPoller(t, c, counts) }) {
		return // the others would only say the same
	}
	t.Run("glob", func(t *testing.T) {
		checkSeries(t, c, counts, []string{"stats_counts." + chainNames.Prefix + ".*.hot_param.*"})
	})
	t.Run("direct", func(t *testing.T) {
		var targets []string
		for key := range counts {
			targets = append(targets, "stats_counts."+string(chainNames.Append(nil, key)))
		}
		checkSeries(t, c, counts, targets)
	})
	t.Run("function", func(t *testing.T) {
		var targets []string
		for key := range counts {
			targets = append(targets, "maximumAbove(removeBelowValue(keepLastValue(stats_counts."+
				string(chainNames.Append(nil, key))+"),0),0)")
		}
		checkSeries(t, c, counts, targets)
	})
	t.Run("exporter", func(t *testing.T) {
		line := regexp.MustCompile(`(?m)^(hotparam_site_[A-Za-z0-9_]+) (\S+)$`)
		checkMetrics(t, exporter, counts, func(text string) map[string]string {
			got := map[string]string{}
			for _, m := range line.FindAllStringSubmatch(text, -1) {
				got[m[1]] = m[2]
			}
			return got
		})
	})
	t.Run("exporter with a mapping", func(t *testing.T) {
		line := regexp.MustCompile(`(?m)^hot_param\{component="([^"]*)",resource="([^"]*)"\} (\S+)$`)
		checkMetrics(t, mapped, counts, func(text string) map[string]string {
			got := map[string]string{}
			for _, m := range line.FindAllStringSubmatch(text, -1) {
				got[chainNames.Prefix+"."+m[2]+".hot_param."+m[1]] = m[3]
			}
			return got
		})
	})
}

// chainKeys returns the vectors of docs/protocol.md and 400 random keys, each with a number of its own.
func chainKeys(t *testing.T) map[hottype.Key]int64 {
	t.Helper()
	var keys []hottype.Key
	rows := regexp.MustCompile("(?m)^\\| \\d+ \\| .* \\| `([^`]*)`(v400)? \\| `([^`]*)`.* \\|$").
		FindAllStringSubmatch(chainRead(t, "../../docs/protocol.md"), -1)
	for _, row := range rows {
		params := row[1]
		if row[2] != "" {
			params += strings.Repeat("v", 400)
		}
		key := hottype.NewKey("topic", params)
		_, component, _ := strings.Cut(string(chainNames.Append(nil, key)), ".hot_param.")
		if row[2] == "" && component != row[3] {
			t.Errorf("%s is written %s, docs/protocol.md says %s", key, component, row[3])
		}
		keys = append(keys, key)
	}
	if len(rows) != 22 {
		t.Fatalf("docs/protocol.md has %d vectors, want 22", len(rows))
	}
	keys = append(keys, "topic", "topic?"+canon.Malformed, "/", "/a/b.c%20d~;x=1,y#|:@?q=1")
	r := rand.New(rand.NewPCG(1, 2)) // the same names in every run
	for range 400 {
		keys = append(keys, randomKey(r))
	}
	counts := map[hottype.Key]int64{}
	for i, k := range keys {
		counts[k] = int64(i + 1)
	}
	return counts
}

// randomKey makes a key of bytes that servers are known to change, and others.
func randomKey(r *rand.Rand) hottype.Key {
	const nasty = "Z_=-.:|@#/,;&%+~ \\\"'(){}[]*?\n\r\t\x00\x7f\xff"
	text := func(most int) string {
		b := make([]byte, r.IntN(most+1))
		for i := range b {
			switch r.IntN(3) {
			case 0:
				b[i] = nasty[r.IntN(len(nasty))]
			case 1:
				b[i] = byte(r.IntN(256))
			default:
				b[i] = "abcXYZ019"[r.IntN(9)]
			}
		}
		return string(b)
	}
	type pair struct{ name, value string }
	pairs := make([]pair, 1+r.IntN(3))
	for i := range pairs {
		pairs[i] = pair{text(8), text(24)}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.value, b.value))
	})
	var params []string
	for _, p := range pairs {
		params = append(params, escape(p.name)+"="+escape(p.value))
	}
	resource := "topic"
	if r.IntN(4) == 0 {
		resource = "/" + strings.ReplaceAll(text(20), "?", "")
	}
	return hottype.NewKey(resource, strings.Join(params, "&"))
}

func escape(s string) string {
	return regexp.MustCompile(`(?s)[^A-Za-z0-9._~-]`).ReplaceAllStringFunc(toLatin(s), func(c string) string {
		return fmt.Sprintf("%%%02X", []rune(c)[0])
	})
}

// toLatin makes a rune of each byte, so that a pattern sees bytes.
func toLatin(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteRune(rune(c))
	}
	return b.String()
}

func sendCounts(t *testing.T, to string, counts map[hottype.Key]int64) {
	t.Helper()
	conn, err := net.Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// Datagrams are full and are not sent all at once, because a socket's buffer is small.
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var packet []byte
	flush := func() {
		<-tick.C
		if _, err := conn.Write(packet); err != nil {
			t.Fatal(err)
		}
		packet = packet[:0]
	}
	for key, n := range counts {
		line := fmt.Appendf(nil, "%s:%d|c\n", chainNames.Append(nil, key), n)
		if len(packet)+len(line) > 1400 {
			flush()
		}
		packet = append(packet, line...)
	}
	flush()
}

// spelled returns the spelling in which a key returns: unchanged, or its alias if it is hashed.
func spelled(key hottype.Key) hottype.Key {
	if alias, ok := canon.Alias([]byte(key), nil); ok {
		return hottype.Key(alias)
	}
	return key
}

// checkPoller reads the counts with the poller, as the aggregator does.
func checkPoller(t *testing.T, c chain, counts map[hottype.Key]int64) {
	set, err := rules.Parse("rules.yaml",
		[]byte(
			"rules:\n- {name: topic, params: ['*'], hot: {rate: 0.001, window: 2m}}\n- {name: '*', params: ['*'], hot: {rate: 0.001, window: 2m}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[hottype.Key]int64{}
	p, err := graphite.New(graphite.Config{
		URL: c.web, Names: chainNames, Rules: set, Flush: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
		Timeout: 30 * time.Second, // the tests of other packages take the processor too
		Handle: func(list []hottype.Count) {
			for _, c := range list {
				got[c.Key] += c.N
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	program.Await(t, 3*time.Minute, "all names in Graphite", func() bool {
		if err := p.Poll(t.Context()); err != nil {
			t.Log(err) // as in the aggregator, the next poll asks again
		}
		return len(got) >= len(counts)
	})
	for key, n := range counts {
		if got[spelled(key)] != n {
			t.Errorf("%q: %d requests, want %d", key, got[spelled(key)], n)
		}
	}
	t.Logf("%d names; %+v", len(got), p.Stats())
}

// checkSeries queries targets until they return all counts. A series that carbon is just writing is neither in its file
// nor in the cache for a moment.
func checkSeries(t *testing.T, c chain, counts map[hottype.Key]int64, targets []string) {
	t.Helper()
	var wrong []string
	defer func() {
		for _, w := range wrong {
			t.Error(w)
		}
	}()
	program.Await(t, time.Minute, "all counts in Graphite", func() bool {
		wrong = nil
		got, err := render(c, targets)
		if err != nil {
			wrong = append(wrong, err.Error())
			return false
		}
		for key, n := range counts {
			if got[spelled(key)] != n {
				wrong = append(wrong, fmt.Sprintf("%q: %d, want %d", key, got[spelled(key)], n))
			}
		}
		if len(got) != len(counts) {
			wrong = append(wrong, fmt.Sprintf("%d names, want %d", len(got), len(counts)))
		}
		return wrong == nil
	})
}

// render returns the highest value of every series.
func render(c chain, targets []string) (map[hottype.Key]int64, error) {
	got := map[hottype.Key]int64{}
	// uwsgi ends connections without a response
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	for some := range slices.Chunk(targets, 50) {
		res, err := client.PostForm(c.web+"/render",
			url.Values{"target": some, "from": {"-5min"}, "format": {"json"}, "noCache": {"true"}})
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			return nil, err
		}
		var series []struct {
			Target     string
			Datapoints [][2]*float64
		}
		if err := json.Unmarshal(body, &series); err != nil {
			return nil, fmt.Errorf("%w: %d %.300s", err, res.StatusCode, body)
		}
		for _, s := range series {
			name := strings.TrimPrefix(strings.TrimSuffix(s.Target, "), 0)"), "removeBelowValue(keepLastValue(")
			key, err := chainNames.Parse([]byte(strings.TrimPrefix(name, "stats_counts.")))
			if err != nil {
				return nil, err
			}
			for _, p := range s.Datapoints {
				if p[0] != nil {
					got[key] = max(got[key], int64(*p[0]))
				}
			}
		}
	}
	return got, nil
}

// startExporter returns the addresses of statsd_exporter, /metrics and UDP.
func startExporter(t *testing.T, mapping string) (metrics, udp string) {
	t.Helper()
	web, port := strconv.Itoa(freeport.Port(t)), strconv.Itoa(freeport.Port(t))
	args := []string{"--web.listen-address=" + loopback(web), "--statsd.listen-udp=" + loopback(port),
		"--statsd.listen-tcp="}
	dir := t.TempDir()
	if mapping != "" {
		chainWrite(t, dir, "mapping.yaml", mapping)
		args = append(args, "--statsd.mapping-config="+dir+"/mapping.yaml")
	}
	chainRun(t, dir, exporterProgram(t), args...)
	program.Await(t, time.Minute, "statsd_exporter", accepts(web))
	return "http://" + loopback(web) + "/metrics", loopback(port)
}

func checkMetrics(t *testing.T, metrics string, counts map[hottype.Key]int64, read func(string) map[string]string) {
	t.Helper()
	var got map[string]string
	program.Await(t, time.Minute, "all names in /metrics", func() bool {
		_, text := chainGet(metrics)
		got = read(text)
		return len(got) >= len(counts)
	})
	decoded := map[hottype.Key]string{}
	for name, n := range got {
		key, err := chainNames.Parse(bytes.TrimSpace([]byte(name)))
		if err != nil {
			t.Error(err)
		}
		decoded[key] = n
	}
	for key, n := range counts {
		if decoded[spelled(key)] != fmt.Sprint(n) {
			t.Errorf("%q: %s, want %d", key, decoded[spelled(key)], n)
		}
	}
}
