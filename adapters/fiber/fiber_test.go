package hotparamfiber_test

import (
	"net"
	"testing"

	"github.com/gofiber/fiber/v3"

	hotparamfiber "github.com/hotparam/pipeline/adapters/fiber"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/testing/adaptertest"
)

func TestNew_PassesTheAdapterSuite(t *testing.T) {
	t.Parallel()
	adaptertest.Run(t, adaptertest.Site[fiber.Ctx]{
		ParseAs: "fiber",
		Header:  func(c fiber.Ctx, name string) string { return c.Get(name) },
		Path:    func(c fiber.Ctx) string { return c.Path() },
		Answer:  func(c fiber.Ctx, status int, text string) error { return c.Status(status).SendString(text) },
		Serve: func(t *testing.T, p *hotparam.Pipeline, o hotparamfiber.Options) string {
			app := fiber.New()
			app.Use(hotparamfiber.New(p, o))
			topic := func(c fiber.Ctx) error { return c.SendString("id=" + c.Query("id")) }
			app.Get("/topic", topic)
			app.Get("/health", topic)
			app.Get("/judged", func(c fiber.Ctx) error { return c.SendString(adaptertest.Judged(c.Context())) })
			return serve(t, app)
		},
	})
}

// serve serves app until the test ends.
func serve(t *testing.T, app *fiber.App) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Listener(ln, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func TestNew_ReportsOutcomes(t *testing.T) {
	t.Parallel()
	adaptertest.Outcomes(t, "fiber", func(t *testing.T, p *hotparam.Pipeline,
		answer func(string) (int, string)) string {
		app := fiber.New()
		app.Use(hotparamfiber.New(p, hotparamfiber.Options{}))
		handler := func(c fiber.Ctx) error {
			status, text := answer(c.Query("id"))
			if status >= 500 {
				return fiber.NewError(status, text)
			}
			return c.Status(status).SendString(text)
		}
		app.Get("/topic", handler)
		app.Get("/rest", handler)
		return serve(t, app)
	})
}

func TestNew_KnowsProofs(t *testing.T) {
	t.Parallel()
	adaptertest.Proofs(t, "fiber", func(t *testing.T, p *hotparam.Pipeline,
		answer func(adaptertest.Exchange) string) string {
		app := fiber.New()
		app.Use(hotparamfiber.New(p, hotparamfiber.Options{}))
		app.Get("/topic", func(c fiber.Ctx) error {
			return c.SendString(answer(adaptertest.Exchange{
				Get: func(name string) string { return c.Get(name) }, Set: c.Set}))
		})
		return serve(t, app)
	})
}
