package caddy

import (
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/testing/adaptertest"
)

// TestHandler_ReportsOutcomes runs the suite with a handler that takes a running pipeline by its settings: the pipeline
// of the suite.
func TestHandler_ReportsOutcomes(t *testing.T) {
	adaptertest.Outcomes(t, "go", func(t *testing.T, p *hotparam.Pipeline, answer func(string) (int, string)) string {
		suite := &process{pipeline: p, stop: func() {}, ended: make(chan error)}
		close(suite.ended)
		key := settings{name: "rules"}.key()
		if _, _, err := running.LoadOrNew(key, func() (caddy.Destructor, error) { return suite, nil }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = running.Delete(key) })
		s := serve(t, "\thotparam")
		s.app.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, text := answer(r.URL.Query().Get("id"))
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		})
		return "127.0.0.1:" + s.port
	})
}
