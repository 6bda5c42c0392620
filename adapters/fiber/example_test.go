package hotparamfiber_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/gofiber/fiber/v3"

	hotparamfiber "github.com/hotparam/pipeline/adapters/fiber"
	"github.com/hotparam/pipeline/hotparam"
)

// A blocked topic, and clients identified by their logins.
func Example() {
	rules, err := hotparam.ParseRules("rules.yaml", []byte(`
parse_as: fiber
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
	app := fiber.New()
	app.Use(hotparamfiber.New(p, hotparamfiber.Options{
		Client: func(c fiber.Ctx) (string, error) {
			user, _ := c.Locals("user").(string) // set by your login
			return user, nil
		},
		Deny: func(c fiber.Ctx, v *hotparam.Verdict) error {
			return c.Status(http.StatusTooManyRequests).
				JSON(map[string]any{"error": "try again later", "reason": v.Reason})
		},
	}))
	app.Get("/topics/:id", func(c fiber.Ctx) error { return c.SendString("topic " + c.Params("id")) })

	for _, target := range []string{"/topics/7", "/topics/42", "/topics/%34%32"} {
		response, err := app.Test(httptest.NewRequest(http.MethodGet, target, nil))
		if err != nil {
			log.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		fmt.Println(response.StatusCode, string(body), err)
	}
	// Output:
	// 200 topic 7 <nil>
	// 429 {"error":"try again later","reason":"blocked"} <nil>
	// 429 {"error":"try again later","reason":"blocked"} <nil>
}
