package hotparam_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

// A service has the log of denials that its Config names, and New refuses a log that cannot be written.
func TestConfig_LogsDenials(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "denials.log")
	rules, err := hotparam.ParseRules("rules.yaml", []byte(`
redact: {token: mask}
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}}]
overrides: [{id: no, key: "topic?id=9", action: block}]
`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules, Denials: hotparam.DenialLog{To: path, Format: "logfmt"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	const requests = 1000
	h := p.Middleware(http.NotFoundHandler())
	begin := time.Now()
	for range requests {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/topic?id=9&token=SECRET", nil))
	}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/topic?id=1", nil))
	seconds := int(time.Since(begin).Seconds()) + 2 // that the requests were in
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if !strings.Contains(first, " client=192.0.2.1 shadow=false reason=blocked rule=no limit=0 retry=-1 ") ||
		!strings.HasSuffix(first, ` key="topic?id=9" target="/topic?id=9&token=masked"`) {
		t.Error(first)
	}
	if n := strings.Count(string(text), "client="); n < 100 || n > 100*seconds ||
		strings.Contains(string(text), "id=1&") || n < requests && !strings.Contains(string(text), "left_out=") {
		t.Errorf("%d lines of %d seconds:\n%s", n, seconds, text)
	}
	for _, log := range []hotparam.DenialLog{{To: path, Format: "xml"}, {To: path, Rate: -2},
		{To: filepath.Join(path, "below")}} {
		if _, err := hotparam.New(hotparam.Config{Denials: log}); err == nil ||
			!strings.Contains(err.Error(), "Config.Denials.") {
			t.Errorf("%+v: %v", log, err)
		}
	}
}
