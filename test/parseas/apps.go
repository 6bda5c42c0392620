package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v4"
)

// goApps are the Go upstreams: each has a route, /topic, whose handler reads the
// query in the usual way; ServeMux has a path with wildcards too.
var goApps = map[string]func() http.Handler{
	"go-servemux": func() http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("/topic", serve)
		mux.HandleFunc("/articles/{id}/{slug}", func(w http.ResponseWriter, r *http.Request) {
			answer(w, func(name string) (string, bool) { return r.PathValue(name), name == "id" })
		})
		return mux
	},
	"chi": func() http.Handler {
		r := chi.NewRouter()
		r.HandleFunc("/topic", serve)
		return r
	},
	"gin": func() http.Handler {
		gin.SetMode(gin.ReleaseMode)
		r := gin.New()
		r.Any("/topic", func(c *gin.Context) {
			answer(c.Writer, func(name string) (string, bool) { return c.GetQuery(name) })
		})
		return r
	},
	"echo": func() http.Handler {
		r := echo.New()
		r.Any("/topic", func(c echo.Context) error {
			answer(c.Response(), func(name string) (string, bool) { return get(c.QueryParams(), name) })
			return nil
		})
		return r
	},
}

// fiberApp has the same route.
func fiberApp() *fiber.App {
	app := fiber.New()
	app.All("/topic", func(c fiber.Ctx) error {
		answer(c, func(name string) (string, bool) {
			q := c.RequestCtx().QueryArgs()
			return c.Query(name), q.Has(name)
		})
		return nil
	})
	return app
}

func serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	answer(w, func(name string) (string, bool) { return get(q, name) })
}

func get(q url.Values, name string) (string, bool) { return q.Get(name), q.Has(name) }

// answer writes what a handler saw, in the form that all upstreams answer in.
func answer(w io.Writer, read func(string) (string, bool)) {
	saw := map[string]any{"saw": true}
	for _, name := range []string{"id", "topic_id"} {
		if v, ok := read(name); ok {
			saw[name] = v
		}
	}
	_ = json.NewEncoder(w).Encode(saw) // a client that left asks again
}
