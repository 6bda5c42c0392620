// Package hotparamecho puts a pipeline before the handlers of echo:
//
//	e := echo.New()
//	e.Use(hotparamecho.New(p, hotparamecho.Options{}))
//
// Requests are read as the server received them, independently of their route. Set "parse_as: echo" in the rules, so
// that all spellings of a request have one key.
package hotparamecho

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
)

// Options are the options of all adapters, with functions that take echo's context.
type Options = hotparam.Options[echo.Context]

// New returns a middleware for Use. Errors that Deny and OnClientError return go to echo's error handler. It panics on
// invalid options.
func New(p *hotparam.Pipeline, o Options) echo.MiddlewareFunc {
	layer := adapter.New(p, o)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			j, err := layer.Enforce(c, c.Response(), c.Request())
			if err != nil || j == nil {
				return err
			}
			defer j.Done()
			c.Response().Before(func() { j.ResponseStarted(c.Response().Status) })
			err = next(c)
			j.ResponseStarted(statusOf(c, err))
			return err
		}
	}
}

// statusOf returns the status of the response, or of an error that echo writes after all handlers have returned.
func statusOf(c echo.Context, err error) int {
	var e *echo.HTTPError
	switch {
	case err == nil || c.Response().Committed:
		return c.Response().Status
	case errors.As(err, &e):
		return e.Code
	}
	return http.StatusInternalServerError
}
