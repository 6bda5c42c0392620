package hotparamecho_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/labstack/echo/v4"

	hotparamecho "github.com/hotparam/pipeline/adapters/echo"
	"github.com/hotparam/pipeline/hotparam"
)

// A blocked topic, and clients identified by their logins.
func Example() {
	rules, err := hotparam.ParseRules("rules.yaml", []byte(`
parse_as: echo
rules:
  - {name: topic, match: {path: "/topics/{id}"}, params: [path.id], hot: {rate: 200}, limit: {rate: 100}}
overrides:
  - {key: "topic?path.id=42", action: block}
`))
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules}) // also run p.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	e := echo.New()
	e.Use(hotparamecho.New(p, hotparamecho.Options{
		Client: func(c echo.Context) (string, error) {
			user, _ := c.Get("user").(string) // set by your login
			return user, nil
		},
		Deny: func(c echo.Context, v *hotparam.Verdict) error {
			return c.JSON(http.StatusTooManyRequests, map[string]any{"error": "try again later", "reason": v.Reason})
		},
	}))
	e.GET("/topics/:id", func(c echo.Context) error { return c.String(http.StatusOK, "topic "+c.Param("id")) })

	for _, target := range []string{"/topics/7", "/topics/42", "/topics/%34%32"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	}
	// Output:
	// 200 topic 7
	// 429 {"error":"try again later","reason":"blocked"}
	// 429 {"error":"try again later","reason":"blocked"}
}
