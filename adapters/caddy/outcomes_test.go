package caddy

import (
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/testing/adaptertest"
)

// serveWith starts a site whose handler takes a running pipeline by its settings: the pipeline of a suite.
func serveWith(t *testing.T, p *hotparam.Pipeline) *site {
	suite := &process{pipeline: p, stop: func() {}, ended: make(chan error)}
	close(suite.ended)
	key := settings{name: "rules"}.key()
	if _, _, err := running.LoadOrNew(key, func() (caddy.Destructor, error) { return suite, nil }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = running.Delete(key) })
	return serve(t, "\thotparam")
}

func TestHandler_KnowsProofs(t *testing.T) {
	adaptertest.Proofs(t, "go", func(t *testing.T, p *hotparam.Pipeline,
		answer func(adaptertest.Exchange) string) string {
		s := serveWith(t, p)
		s.app.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(answer(adaptertest.Exchange{Get: r.Header.Get, Set: w.Header().Set})))
		})
		return "127.0.0.1:" + s.port
	})
}

func TestHandler_ReportsOutcomes(t *testing.T) {
	adaptertest.Outcomes(t, "go", func(t *testing.T, p *hotparam.Pipeline, answer func(string) (int, string)) string {
		s := serveWith(t, p)
		s.app.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, text := answer(r.URL.Query().Get("id"))
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		})
		return "127.0.0.1:" + s.port
	})
}
