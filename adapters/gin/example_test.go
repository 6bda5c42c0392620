package hotparamgin_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	hotparamgin "github.com/hotparam/pipeline/adapters/gin"
	"github.com/hotparam/pipeline/hotparam"
)

// A blocked topic, and clients identified by their logins.
func Example() {
	rules, err := hotparam.ParseRules("rules.yaml", []byte(`
parse_as: gin
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
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(hotparamgin.New(p, hotparamgin.Options{
		Client: func(c *gin.Context) (string, error) { return c.GetString("user"), nil }, // set by your login
		Deny: func(c *gin.Context, v *hotparam.Verdict) error {
			c.JSON(http.StatusTooManyRequests, gin.H{"error": "try again later", "reason": v.Reason})
			return nil
		},
	}))
	r.GET("/topics/:id", func(c *gin.Context) { c.String(http.StatusOK, "topic %s", c.Param("id")) })

	for _, target := range []string{"/topics/7", "/topics/42", "/topics/%34%32"} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 topic 7
	// 429 {"error":"try again later","reason":"blocked"}
	// 429 {"error":"try again later","reason":"blocked"}
}
