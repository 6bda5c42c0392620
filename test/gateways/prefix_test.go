package gateways

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/admin"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// prefixConfs are the usual ways to serve a listener below /hot/, by gateway. nginx decodes %2F in the path then.
var prefixConfs = map[string]struct {
	file, text string
	command    func(t *testing.T, config, addr string) *exec.Cmd
}{
	"nginx": {"nginx.conf", "events {}\nhttp { access_log off; server { listen {front}; " +
		"location /hot/ { proxy_pass http://{page}/; } } }", func(t *testing.T, config, _ string) *exec.Cmd {
		dir := filepath.Dir(config)
		return exec.Command(installed(t, "nginx"), "-p", dir, "-e", "stderr", "-c", config, "-g",
			"daemon off; pid "+dir+"/pid;")
	}},
	"Caddy": {"Caddyfile", "{\n\tadmin off\n}\nhttp://{front} {\n" +
		"\thandle_path /hot/* {\n\t\treverse_proxy {page}\n\t}\n}\n",
		func(t *testing.T, config, _ string) *exec.Cmd {
			cmd := exec.Command(installed(t, "caddy"), "run", "--config", config, "--adapter", "caddyfile")
			cmd.Env = append(cmd.Environ(), "XDG_CONFIG_HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir())
			return cmd
		}},
	"Traefik": {"traefik.yaml", `http:
  routers: {hot: {rule: "PathPrefix(` + "`/hot/`" + `)", service: page, middlewares: [strip]}}
  middlewares: {strip: {stripPrefix: {prefixes: [/hot]}}}
  services: {page: {loadBalancer: {servers: [{url: "http://{page}"}]}}}
`, func(t *testing.T, config, addr string) *exec.Cmd {
		cmd := exec.Command(traefikProgram(t), "--entrypoints.web.address="+addr, "--providers.file.filename="+config,
			"--ping.manualrouting", "--log.level=ERROR", "--global.checknewversion=false",
			"--global.sendanonymoususage=false")
		cmd.Dir = t.TempDir()
		return cmd
	}},
}

// TestPage_WorksBelowPrefix checks that below a prefix, whichever way a gateway or a router writes the path that it
// passes on, each key and each client is looked up and acted on as it was named.
func TestPage_WorksBelowPrefix(t *testing.T) {
	t.Parallel()
	page := keyPage(t)
	for name, conf := range prefixConfs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(page)
			t.Cleanup(srv.Close)
			addr, config := freeport.Addr(t), filepath.Join(t.TempDir(), conf.file)
			text := strings.NewReplacer("{front}", addr, "{page}", srv.Listener.Addr().String()).Replace(conf.text)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			program.Start(t, conf.command(t, config, addr))
			program.Await(t, time.Minute, "the first answer", func() bool {
				resp, err := http.Get("http://" + addr + "/hot/livez")
				if err != nil {
					return false
				}
				resp.Body.Close()
				return resp.StatusCode == http.StatusOK
			})
			askBelow(t, "http://"+addr+"/hot")
		})
	}
	t.Run("chi", func(t *testing.T) {
		t.Parallel()
		r := chi.NewRouter()
		r.Mount("/hot", http.StripPrefix("/hot", page))
		srv := httptest.NewServer(r)
		t.Cleanup(srv.Close)
		askBelow(t, srv.URL+"/hot")
	})
}

// keyPage is the page of a service, with the default rules.
func keyPage(t *testing.T) http.Handler {
	t.Helper()
	set, err := hotparam.ParseRules("rules.yaml", []byte(`
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 100, window: 5s}}
  - {name: "*", params: ["*"], hot: {rate: 100, window: 5s}}
`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	page, err := admin.New(p, admin.Config{Token: "a-token-of-the-test"})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func askBelow(t *testing.T, base string) {
	t.Helper()
	ask := func(method, target string) (a struct{ Key, Client, Asked string }) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+target, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a-token-of-the-test")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode == http.StatusOK {
			err = json.Unmarshal(body, &a)
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %s %s, %v", method, target, resp.Status, body, err)
		}
		return a
	}
	for _, key := range []string{"/status?x=1", "topic?id=a%2Fb", "topic?id=%2E%2E%2Fx", "//a//b", "/", "topic?id=42"} {
		query := "?key=" + url.QueryEscape(key)
		known := ask(http.MethodGet, "/v1/key"+query)
		if known.Asked != key {
			t.Errorf("%s was asked about as %s", key, known.Asked)
		}
		if reset := ask(http.MethodPost, "/v1/key/reset"+query); reset.Key != known.Key {
			t.Errorf("%s was reset as %s", key, reset.Key)
		}
	}
	for _, client := range []string{"10.0.0.0/8", "2001:db8:7::/48", "192.0.2.7"} {
		a := ask(http.MethodGet, "/v1/client?client="+url.QueryEscape(client))
		if a.Client != client || a.Asked != client {
			t.Errorf("%s was asked about as %+v", client, a)
		}
	}
	// Gateways rewrite paths: the answer names the key that was asked for, by which a caller notices that.
	if a := ask(http.MethodGet, "/v1/keys/topic%3Fid=a%252Fb"); a.Asked == "" || a.Asked != "topic?id=a%2Fb" &&
		a.Key == "topic?id=a%2Fb" {
		t.Errorf("by path: %+v", a)
	}
}
