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
// query in the usual way, and /login; ServeMux has a path with wildcards too.
var goApps = map[string]func() http.Handler{
	"go-servemux": func() http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("/topic", serve)
		mux.HandleFunc("GET /login", login)
		mux.HandleFunc("POST /login", login)
		mux.HandleFunc("/articles/{id}/{slug}", func(w http.ResponseWriter, r *http.Request) {
			answer(w, func(name string) (string, bool) { return r.PathValue(name), name == "id" })
		})
		return mux
	},
	"chi": func() http.Handler {
		r := chi.NewRouter()
		r.HandleFunc("/topic", serve)
		r.Get("/login", login)
		r.Post("/login", login)
		return r
	},
	"gin": func() http.Handler {
		gin.SetMode(gin.ReleaseMode)
		r := gin.New()
		r.Match(loginMethods, "/login", func(c *gin.Context) {
			answerLogin(c.Writer, c.Request.Method, c.Request.Host, c.GetHeader(accountField))
		})
		r.Any("/topic", func(c *gin.Context) {
			answer(c.Writer, func(name string) (string, bool) { return c.GetQuery(name) })
		})
		return r
	},
	"echo": func() http.Handler {
		r := echo.New()
		r.Match(loginMethods, "/login", func(c echo.Context) error {
			answerLogin(c.Response(), c.Request().Method, c.Request().Host, c.Request().Header.Get(accountField))
			return nil
		})
		r.Any("/topic", func(c echo.Context) error {
			answer(c.Response(), func(name string) (string, bool) { return get(c.QueryParams(), name) })
			return nil
		})
		return r
	},
}

// fiberApp has the same routes.
func fiberApp() *fiber.App {
	app := fiber.New()
	app.Add(loginMethods, "/login", func(c fiber.Ctx) error {
		answerLogin(c, c.Method(), c.Hostname(), c.Get(accountField))
		return nil
	})
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

// loginMethods are the methods of /login, whose handler reads method, host and X-Account in the usual way.
var loginMethods = []string{http.MethodGet, http.MethodPost}

const accountField = "X-Account"

func login(w http.ResponseWriter, r *http.Request) {
	answerLogin(w, r.Method, r.Host, r.Header.Get(accountField))
}

// answerLogin writes the values that the handler of /login read.
func answerLogin(w io.Writer, method, host, account string) {
	_ = json.NewEncoder(w).Encode(loginRead{true, method, host, account}) // a client that left asks again
}

func get(q url.Values, name string) (string, bool) { return q.Get(name), q.Has(name) }

// answer writes the values that a handler read, in the form in which all upstreams answer.
func answer(w io.Writer, read func(string) (string, bool)) {
	saw := map[string]any{"saw": true}
	for _, name := range []string{"id", "topic_id"} {
		if v, ok := read(name); ok {
			saw[name] = v
		}
	}
	_ = json.NewEncoder(w).Encode(saw) // a client that left asks again
}
