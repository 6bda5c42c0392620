package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that validate calls right is one that serve starts with.
func TestValidateJudgesWhatServeJudges(t *testing.T) {
	t.Parallel()
	const rule = "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 5}}]\n"
	for text, want := range map[string]string{
		"": "",
		"proxy: {upstream: 'http://127.0.0.1:3000'}":                                   "",
		"proxy: {upstream: '127.0.0.1:3000'}":                                          `--proxy.upstream "127.0.0.1:3000": want a URL`,
		"proxy: {upstreams: {a: b}}":                                                   `--proxy.upstreams "b": want a URL`,
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
