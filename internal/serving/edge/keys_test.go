package edge_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/parseas"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/edge"
)

// sets are rules, and the keys that nginx makes of requests by them.
const sets = `
rules:
  - {name: login, match: {path: /login, methods: [POST]}, per_client: {fixed: {limit: 9, window: 1m}}}
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 9}}
> POST h /login ?
> POST h /login?id=42 ?
> GET h /topic?id=42 topic?id=42

rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 9}}]
> GET h /topic?id=42 topic?id=42
> GET h /topic topic
> GET h /topic? topic
> GET h /topic?id= topic?id=
> GET h /topic?utm=a%20b&id=A.b~c_d-e&flag topic?id=A.b~c_d-e
> GET h /topic?id=caf%C3%A9 topic?id=caf%C3%A9
> GET h /topic?id=1&id=2 ?
> GET h /topic?%69d=1 ?
> GET h /topic?id ?
> GET h /topic?id=%41 ?
> GET h /topic?id=caf%c3%a9 ?
> GET h /topic?a=1&&id=1 ?
> GET h /%74opic?id=1 ?
> GET h /topic?idx=1&xid=2 topic
> POST h /topic?id=1 topic?id=1
> GET h /TOPIC?id=1
> GET h /other?id=1
> GET h /topic/x

rules: [{name: topic, match: {path: /topic}, params: [page, id, lang], hot: {rate: 9}}]
> GET h /topic?page=2&id=42 topic?id=42&page=2
> GET h /topic?lang=en&x=1&id=42&page=2&y=2 topic?id=42&lang=en&page=2
> GET h /topic?page=2&page=2 ?
> GET h /topic?lang=en topic?lang=en
> GET h /topic?x topic

parse_as: express4
rules: [{name: topic, match: {path: '/topics/{id}'}, params: [path.id, lang], hot: {rate: 9}}]
> GET h /topics/42?lang=en topic?lang=en&path.id=42
> GET h /topics/42/ ?
> GET h /Topics/42 ?
> GET h /topics/a.b ?
> GET h /topics/42?lang[]=en ?
> GET h /topics

rules:
  - {name: read, match: {path: /t, methods: [GET]}, params: [id], hot: {rate: 9}}
  - {name: write, match: {path: /t, methods: [POST]}, params: [], hot: {rate: 9}}
> GET h /t?id=1 read?id=1
> HEAD h /t?id=1 read?id=1
> POST h /t?id=1 write
> PUT h /t?id=1

rules:
  - {name: one, match: {path: /t, hosts: [a.example]}, params: [id], hot: {rate: 9}}
  - {name: two, match: {path: /t}, params: [id], hot: {rate: 9}}
> GET A.example:80 /t?id=1 one?id=1
> GET a.example. /t?id=1 one?id=1
> GET b.example /t?id=1 two?id=1
> GET [::1] /t?id=1 ?

rules: [{name: '*', params: ['*'], hot: {rate: 9}}]
> GET h /a/b /a/b
> GET h /a?x=1 /a?x=1
> GET h /a?x=1&y=2 ?
> GET h / /
> GET h /a//b ?

parse_as: nginx
rules: [{name: '*', params: [id], hot: {rate: 9}}]
> GET h /a/b?id=7 /a/b?id=7
> GET h /a/../b ?
> GET h /a?ID=7 ?

rules:
  - {name: all, match: {path: /all/}, params: [], continue: true, hot: {rate: 9}}
  - {name: x, match: {path: '/all/{x}'}, params: [path.x], hot: {rate: 9}}
> GET h /all/1 ?
> GET h /all

rules:
  - {name: head, match: {path: /t}, params: [header.X-A], hot: {rate: 9}}
  - {name: '*', params: [], hot: {rate: 9}}
> GET h /t ?
> GET h /u /u

rules:
  - name: n
    match: {path: '/n/{id}/{slug...}'}
    params: [{name: path.id, integer: go}, {name: q, fold: true, trim: true}]
    hot: {rate: 9}
> GET h /n/42/a/b?q=abc n?path.id=42&q=abc
> GET h /n/042/a ?
> GET h /n/42/?q=Abc ?
> GET h /n/x/ ?

rules: [{name: n, match: {path: '/n/{rest...}'}, params: [path.rest], hot: {rate: 9}}]
> GET h /n/42 ?

rules: [{name: s, match: {path: /s}, params: [{name: token, redact: hash}], hot: {rate: 9}}]
> GET h /s ?
> GET h /s?token=1 ?

query_bounds: {pairs: 3, value_bytes: 4, query_bytes: 64, name_bytes: 6}
rules:
  - {name: topic, match: {path: '/t/{x}'}, params: [id, path.x], hot: {rate: 9}}
  - {name: '*', params: [abcd], hot: {rate: 9}}

parse_as: rails
rules: [{name: f, match: {path: /feed/}, params: [id, query.a.b], hot: {rate: 9}}]
> GET h /feed/x?id=1 f?id=1
> GET h /feed?a.b=1 f?a.b=1
> GET h /feed.json ?

parse_as: php
rules: [{name: p, match: {path: /p}, params: [topic_id], hot: {rate: 9}}]
> GET h /p?topic_id=1 p?topic_id=1
> GET h /p?topic.id=1 ?
> GET h /p?topic+id=1 ?

parse_as: go
rules:
  - {name: e, match: {path: '/x/{$}'}, params: [], hot: {rate: 9}}
  - {name: lit, match: {path: /caf%C3%A9}, params: [], hot: {rate: 9}}
`

// ofPreset are rules for each upstream.
const ofPreset = `
parse_as: %q
rules:
  - {name: topic, match: {path: /topic}, params: [id, page], hot: {rate: 9}}
  - {name: slug, match: {path: '/{a}/{slug}'}, params: [path.slug], hot: {rate: 9}}
  - {name: '*', params: [id], hot: {rate: 9}}
`

// targets returns the targets with which upstreams were measured, and random combinations of their parts.
func targets(t *testing.T, random int) []string {
	t.Helper()
	data, err := os.ReadFile("../../rules/testdata/upstreams.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Targets []struct{ Target string } }
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, d := range doc.Targets {
		var b []byte
		for _, r := range d.Target {
			b = append(b, byte(r))
		}
		if !bytes.ContainsAny(b, "\r\n\t ") { // which end the target of a request
			list = append(list, string(b))
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	for i := range random {
		var b strings.Builder
		if i%2 == 0 { // most parts of it are plain
			b.WriteString(pick("/topic", "/t", "/t/x", "/topics/42", "/n/7/a", "/p", "/feed/1", "/all/1", "/a",
				"/", "/s", "/x"))
			mark := "?"
			for range rnd.IntN(5) {
				b.WriteString(mark + pick("id", "page", "lang", "q", "x", "utm_source", "topic_id", "idx", "abcd",
					"a.b"))
				b.WriteString(pick("=", "=", "=", "") + pick("42", "1", "a", "A.b", "a%20b", "%C3%A9", "042", "",
					"%41"))
				mark = "&"
			}
			list = append(list, b.String())
			continue
		}
		for range 1 + rnd.IntN(3) {
			b.WriteString(pick("/", "/", "/", "//", "", "/./", "/../", "%2F"))
			b.WriteString(pick("topic", "topic", "t", "t", "n", "x", "p", "feed", "all", "42", "a", "", "Topic",
				"topics", "%74opic", "a.b",
				".json", "caf%C3%A9", "~u", "-", "longer-than-four"))
		}
		b.WriteString(pick("", "", "?", "?", "?", "?", "/?", "??", ".?", "#"))
		for i := range rnd.IntN(6) {
			if i > 0 {
				b.WriteString(pick("&", "&", "&", "&", "&", "&&", ";", "&amp;"))
			}
			b.WriteString(pick("id", "id", "id", "page", "lang", "q", "x", "token", "ID", "topic_id", "topic.id",
				"a.b", "i%64", "id[]", "[id]",
				"idx", "", "abcd", "utm_source", "+id", "id%00"))
			b.WriteString(pick("=", "=", "=", "=", "=", "", "==", "%3D"))
			b.WriteString(pick("42", "42", "1", "042", "", "a", "A", "abc.d~e_f-g", "a%20b", "%41", "%c3%a9",
				"%C3%A9", "a+b", "%", "%zz", "\xff",
				"a=b", "?", "%2E", "%7E", "%0A", "9999999999999999", strings.Repeat("x", rnd.IntN(300))))
		}
		list = append(list, b.String())
	}
	return list
}

// TestNginxAndHAProxy_MakeTheKeysOfTheLimiter lets nginx and HAProxy make the keys of plain targets. Each key is the
// same as the limiter's, or they would ask.
func TestNginxAndHAProxy_MakeTheKeysOfTheLimiter(t *testing.T) {
	t.Parallel()
	random := 400
	if os.Getenv("HOTPARAM_NIGHTLY") != "" { // each goes through two gateways for every set
		random = 4000
	}
	texts, targets := strings.Split(sets, "\n\n"), targets(t, random)
	for _, name := range parseas.Presets() {
		texts = append(texts, fmt.Sprintf(ofPreset, name))
	}
	compiled := make([]*rules.Set, len(texts))
	var maps strings.Builder
	keyFiles := make([]string, len(texts))
	for i := range texts {
		text, _, _ := strings.Cut(texts[i], "\n>")
		set, err := rules.Parse("plain.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		compiled[i] = set
		config := edge.Nginx(set)
		keyFiles[i] = edge.HAProxy(set)
		n := fmt.Sprintf("_%d ", i)
		config = strings.NewReplacer("$hotparam_key ", "$hotparam_key"+n, "$hotparam_exempt ", "$hotparam_exempt"+n,
			"$hotparam_rules ", "$hotparam_rules"+n).Replace(config)
		fmt.Fprintf(&maps,
			"%sserver { listen unix:{dir}/%d; location / { add_header X-Key $hotparam_key%s always; return 200; } }\n",
			config, i, n)
	}
	dir, haproxyDir := startNginx(t, maps.String()), startHAProxy(t, keyFiles)
	plain := 0
	for i, set := range compiled {
		c := &server{t: t, socket: filepath.Join(dir, fmt.Sprint(i))}
		h := &server{t: t, socket: filepath.Join(haproxyDir, fmt.Sprint(i))}
		for line := range strings.SplitSeq(texts[i], "\n> ") {
			f := append(strings.Fields(line), "")
			if f[0] != "GET" && f[0] != "HEAD" && f[0] != "POST" && f[0] != "PUT" {
				continue
			}
			if key, ok := c.key(f[0], f[1], f[2]); key != f[3] || !ok {
				t.Errorf("%s: nginx makes the key %q", line, key)
			}
			for _, origin := range []string{"", "http://h", "https://h:80"} {
				key, ok := h.key(f[0], f[1], origin+f[2])
				if key = strings.TrimPrefix(key, "-"); ok && key != f[3] || !ok && origin == "" {
					t.Errorf("%s: HAProxy makes the key %q", line, key)
				}
			}
			if key, ok := h.key(f[0], "h?x=", "http://h?x="+f[2]); ok && key != rules.AskPlain {
				t.Errorf("%s in a query: HAProxy makes the key %q", line, key)
			}
		}
		for k, target := range targets {
			method, host := []string{"GET", "HEAD", "POST", "post"}[k%4], []string{"h", "a.example",
				"a.example:80", "A.EXAMPLE.", "a.example..", "a.example:80:1", "a.example:x"}[k%7]
			key, ok := c.key(method, host, target)
			other, okay := h.key(method, host, target)
			if other = strings.TrimPrefix(other, "-"); ok && okay && key != other {
				t.Fatalf("%s\n%s %s %q: nginx makes the key %q, HAProxy %q", texts[i], method, host, target, key,
					other)
			}
			if !ok {
				key, ok = other, okay
			}
			if !ok || key == rules.AskPlain {
				continue
			}
			plain++
			matches := set.Match(&hottype.Request{Method: method, Host: host, Target: target,
				Header: http.Header{}}, new(rules.Scratch))
			switch {
			case key == "" && len(matches) == 0,
				len(matches) == 1 && string(matches[0].Key) == key && !matches[0].Malformed:
			default:
				t.Fatalf("%s\n%s %s %q: a gateway makes the key %q, the limiter %d: %v", texts[i], method, host,
					target, key, len(matches), keys(matches))
			}
		}
		h.close()
		c.close()
	}
	if share := float64(plain) / float64(len(compiled)*len(targets)); share < 0.1 {
		t.Errorf("%.3f of the targets are plain", share)
	}
}

func keys(matches []rules.Match) (list []string) {
	for _, m := range matches {
		list = append(list, string(m.Key))
	}
	return list
}

// startNginx starts nginx with servers on sockets in a directory, which it returns.
func startNginx(t *testing.T, servers string) string {
	t.Helper()
	path, dir := installed(t, "nginx")
	paths := ""
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		paths += name + "_temp_path " + dir + "/" + name + ";"
	}
	config := "daemon off; master_process off; pcre_jit on; pid " + dir + "/pid; " +
		"error_log stderr error; events {} http { access_log off; " +
		"variables_hash_max_size 4096; keepalive_requests 1000000;" + paths + strings.ReplaceAll(servers, "{dir}",
		dir) + "}"
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, exec.Command(path, "-p", dir, "-c", file), filepath.Join(dir, "0"))
	return dir
}

// startHAProxy starts HAProxy with a socket for each file of keys in a directory, which it returns. It makes keys by
// the lines of edge.cfg.
func startHAProxy(t *testing.T, keyFiles []string) string {
	t.Helper()
	path, dir := installed(t, "haproxy")
	deployed, err := os.ReadFile("../../../deploy/haproxy/edge.cfg")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^ +http-request set-var[^(]*\(txn\.hotparam\.(?:subject|plain)\).*\n`).
		FindAllString(string(deployed), -1)
	config := "defaults\nmode http\ntimeout client 30s\ntimeout http-keep-alive 30s\n"
	for i, keys := range keyFiles {
		file := filepath.Join(dir, fmt.Sprint(i, ".map"))
		if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
			t.Fatal(err)
		}
		config += fmt.Sprintf("frontend f%d\nbind unix@%s/%d\n", i, dir, i) +
			strings.ReplaceAll(strings.Join(lines, ""), "${HOTPARAM_KEYS}", file) +
			"http-request return status 200 hdr X-Key %[var(txn.hotparam.plain)]\n"
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, exec.Command(path, "-db", "-f", file), filepath.Join(dir, "0"))
	return dir
}

// installed is the path of a gateway, and a directory for its sockets. Without the gateway the test is skipped.
func installed(t *testing.T, name string) (path, dir string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("HOTPARAM_REQUIRE_SERVERS") != "" {
			t.Fatal(name + " is not installed")
		}
		t.Skip(name + " is not installed")
	}
	if dir, err = os.MkdirTemp("", "edge"); err != nil { // t.TempDir is too long for a socket
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return path, dir
}

// await starts a gateway, and waits until it listens on a socket.
func await(t *testing.T, cmd *exec.Cmd, socket string) {
	t.Helper()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for until := time.Now().Add(20 * time.Second); ; {
		if conn, err := net.Dial("unix", socket); err == nil {
			_ = conn.Close()
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s: %v\n%s", cmd.Path, err, said.String())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(until) {
			t.Fatal(cmd.Path + " does not listen")
		}
	}
}

// server is a gateway with a connection that is kept.
type server struct {
	t      *testing.T
	socket string
	conn   net.Conn
	r      *bufio.Reader
}

func (n *server) close() {
	if n.conn != nil {
		_ = n.conn.Close()
		n.conn = nil
	}
}

// key returns the key of a request, and false if the gateway refuses it.
func (n *server) key(method, host, target string) (string, bool) {
	n.t.Helper()
	for fresh := false; ; {
		if n.conn == nil {
			conn, err := net.Dial("unix", n.socket)
			if err != nil {
				n.t.Fatal(err)
			}
			n.conn, n.r, fresh = conn, bufio.NewReader(conn), true
		}
		_ = n.conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = fmt.Fprintf(n.conn, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", method, target, host)
		res, err := http.ReadResponse(n.r, &http.Request{Method: method})
		if err != nil && !fresh {
			n.close()
			continue
		}
		if err != nil {
			n.close()
			return "", false
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.Close {
			n.close()
		}
		return res.Header.Get("X-Key"), res.StatusCode == 200
	}
}
