package hotparamecho_test

import (
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"

	hotparamecho "github.com/hotparam/pipeline/adapters/echo"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/testing/adaptertest"
)

func TestNew_PassesTheAdapterSuite(t *testing.T) {
	t.Parallel()
	adaptertest.Run(t, adaptertest.Site[echo.Context]{
		ParseAs: "echo",
		Header:  func(c echo.Context, name string) string { return c.Request().Header.Get(name) },
		Path:    func(c echo.Context) string { return c.Path() },
		Answer:  func(c echo.Context, status int, text string) error { return c.String(status, text) },
		Serve: func(t *testing.T, p *hotparam.Pipeline, o hotparamecho.Options) string {
			e := echo.New()
			e.Use(hotparamecho.New(p, o))
			topic := func(c echo.Context) error { return c.String(200, "id="+c.QueryParam("id")) }
			e.GET("/topic", topic)
			e.GET("/health", topic)
			e.GET("/judged", func(c echo.Context) error {
				return c.String(200, adaptertest.Judged(c.Request().Context()))
			})
			s := httptest.NewServer(e)
			t.Cleanup(s.Close)
			return s.Listener.Addr().String()
		},
	})
}

func TestPipeline_CachesAroundEcho(t *testing.T) {
	t.Parallel()
	e, n := echo.New(), atomic.Int64{}
	e.GET("/topic", func(c echo.Context) error { return c.String(200, fmt.Sprint("answer ", n.Add(1))) })
	adaptertest.Cached(t, "echo", e)
}

func TestNew_ReportsOutcomes(t *testing.T) {
	t.Parallel()
	adaptertest.Outcomes(t, "echo", func(t *testing.T, p *hotparam.Pipeline, answer func(string) (int, string)) string {
		e := echo.New()
		e.Use(hotparamecho.New(p, hotparamecho.Options{}))
		handler := func(c echo.Context) error {
			status, text := answer(c.QueryParam("id"))
			if status >= 500 {
				return echo.NewHTTPError(status, text)
			}
			return c.String(status, text)
		}
		e.GET("/topic", handler)
		e.GET("/rest", handler)
		s := httptest.NewServer(e)
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	})
}

func TestNew_KnowsProofs(t *testing.T) {
	t.Parallel()
	adaptertest.Proofs(t, "echo", func(t *testing.T, p *hotparam.Pipeline,
		answer func(adaptertest.Exchange) string) string {
		e := echo.New()
		e.Use(hotparamecho.New(p, hotparamecho.Options{}))
		e.GET("/topic", func(c echo.Context) error {
			return c.String(200, answer(adaptertest.Exchange{
				Get: c.Request().Header.Get, Set: c.Response().Header().Set}))
		})
		s := httptest.NewServer(e)
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	})
}
