package publicapi

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/testing/adaptertest"
)

// chi takes middleware of net/http, so it needs no adapter.
func Example_chi() {
	rules, err := hotparam.ParseRules("rules.yaml", []byte(`
parse_as: chi
rules:
  - {name: topic, match: {path: "/topics/{id}"}, params: [path.id], hot: {rate: 200}, limit: {rate: 100}}
overrides:
  - {key: "topic?path.id=42", action: block}
`))
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules}) // and go p.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	r := chi.NewRouter()
	r.Use(p.Middleware)
	r.Get("/topics/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "topic ", chi.URLParam(r, "id"))
	})

	for _, target := range []string{"/topics/7", "/topics/42"} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 text/plain; charset=utf-8
	// 429 application/problem+json
}

// The middleware keeps the promises that the adapters have to keep.
func TestMiddleware_PassesTheAdapterSuite(t *testing.T) {
	t.Parallel()
	topic := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "id="+r.URL.Query().Get("id")) }
	judged := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, adaptertest.Judged(r.Context()))
	}
	for framework, router := range map[string]func(limit func(http.Handler) http.Handler) http.Handler{
		"chi": func(limit func(http.Handler) http.Handler) http.Handler {
			r := chi.NewRouter()
			r.Use(limit)
			r.Get("/topic", topic)
			r.Get("/health", topic)
			r.Get("/judged", judged)
			return r
		},
		"go": func(limit func(http.Handler) http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.HandleFunc("/topic", topic)
			mux.HandleFunc("/health", topic)
			mux.HandleFunc("/judged", judged)
			return limit(mux)
		},
	} {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			adaptertest.Run(t, adaptertest.Site[hotparam.Exchange]{
				ParseAs: framework,
				Header:  func(x hotparam.Exchange, name string) string { return x.R.Header.Get(name) },
				Path:    func(x hotparam.Exchange) string { return x.R.URL.Path },
				Answer: func(x hotparam.Exchange, status int, text string) error {
					x.W.WriteHeader(status)
					_, err := io.WriteString(x.W, text)
					return err
				},
				Serve: func(t *testing.T, p *hotparam.Pipeline, o hotparam.Options[hotparam.Exchange]) string {
					s := httptest.NewServer(router(p.MiddlewareWith(o)))
					t.Cleanup(s.Close)
					return s.Listener.Addr().String()
				},
			})
		})
	}
}

func TestMiddleware_ReportsAllOutcomes(t *testing.T) {
	t.Parallel()
	adaptertest.Outcomes(t, "go", func(t *testing.T, p *hotparam.Pipeline, answer func(string) (int, string)) string {
		s := httptest.NewServer(p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, text := answer(r.FormValue("id"))
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		})))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	})
}
