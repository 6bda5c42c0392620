package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that validate calls right is one that serve starts with.
func TestValidate_AcceptsWhatServeAccepts(t *testing.T) {
	t.Parallel()
	const rule = "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 5}}]\n"
	for text, want := range map[string]string{
		"": "",
		"proxy: {upstream: 'http://127.0.0.1:3000'}":                                   "",
		"proxy: {upstream: '127.0.0.1:3000'}":                                          `--proxy.upstream "127.0.0.1:3000" must be a URL`,
		"proxy: {upstreams: {a: b}}":                                                   `--proxy.upstreams "b" must be a URL`,
		"proxy: {cache_memory: 0}":                                                     "--proxy.cache_memory 0",
		"proxy: {upstream_tls_ca: /nonexistent}":                                       "/nonexistent",
		"admin: {listen: '0.0.0.0:9180'}":                                              "--admin.token",
		"admin: {token: short}":                                                        "admin.token",
		"admin: {tokens: {ann: 'king sha256:00'}}":                                     "admin.tokens",
		"answer: {script: x}":                                                          "--answer.script",
		"answer: {refusal: {'a b': c}}":                                                "--answer.refusal",
		"history: {keep: 1h, keys: 0}":                                                 "--history.keys 0",
		"notifications: {webhooks: [{name: a, url: 'ftp://x'}]}":                       "notifications.webhooks",
		"redact: {id: hash}":                                                           "--privacy.secret_file",
		"upstreams: [{name: default, url: 'http://a'}]\nproxy: {upstream: 'http://b'}": "keep one",
	} {
		path := filepath.Join(t.TempDir(), "hotparam.yaml")
		if err := os.WriteFile(path, []byte(rule+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Validate(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), path)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A unix socket names no client, and no header is believed without trusted proxies: the windows of clients would never
// apply, which is said at validation and at the start.
func TestValidate_WarnsOfASocketWithoutClients(t *testing.T) {
	t.Parallel()
	const ip = "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}}]\n" +
		"ip: {fixed: {limit: 5, window: 1s}%s}\nproxy: {listen: '%s', upstream: 'http://127.0.0.1:3000'}\n"
	for text, warned := range map[string]bool{
		fmt.Sprintf(ip, "", "unix:/run/hotparam.sock"):                               true,
		fmt.Sprintf(ip, ", trusted_proxies: [127.0.0.1]", "unix:/run/hotparam.sock"): false,
		fmt.Sprintf(ip, "", "127.0.0.1:8080"):                                        false,
	} {
		path := filepath.Join(t.TempDir(), "hotparam.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, warnings, err := Validate(path)
		got := strings.Contains(strings.Join(warnings, "\n"), "proxy.listen is a unix socket")
		if err != nil || got != warned {
			t.Errorf("%s: %q %v", text, warnings, err)
		}
	}
	if unknownClients("check", "unix:/a", false) != "" || unknownClients("mirror", "unix:/a", false) == "" {
		t.Error("a gateway's checks name their clients, and mirrored requests do not")
	}
}
