// Package hotparamfiber puts a pipeline before the handlers of fiber, version 3:
//
//	app := fiber.New()
//	app.Use(hotparamfiber.New(p, hotparamfiber.Options{}))
//
// fasthttp parses requests in its own way. The pipeline gets the request line as it was received. Set "parse_as: fiber"
// in the rules, so that all spellings of a request have one key.
package hotparamfiber

import (
	"errors"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
)

// Options are the options of all adapters, with functions that take fiber's context.
type Options = hotparam.Options[fiber.Ctx]

// New returns a handler for Use. Errors that Deny and OnClientError return go to fiber's error handler. It panics on
// invalid options.
func New(p *hotparam.Pipeline, o Options) fiber.Handler {
	layer := adapter.New(p, o)
	return func(c fiber.Ctx) error {
		w := &writer{c: c, header: http.Header{}}
		j, err := layer.Enforce(c, w, requestOf(c))
		w.setHeader()
		if err != nil || j == nil {
			return err
		}
		defer j.Done()
		if o.InContext {
			c.SetContext(j.Context(c.Context()))
		}
		err = c.Next()
		j.ResponseStarted(statusOf(c, err))
		return err
	}
}

// statusOf returns the status of the response, which fasthttp sends after all handlers have returned.
func statusOf(c fiber.Ctx, err error) int {
	var e *fiber.Error
	switch {
	case err == nil:
		return c.Response().StatusCode()
	case errors.As(err, &e):
		return e.Code
	}
	return http.StatusInternalServerError
}

// requestOf returns the request as fasthttp received it. It copies everything, because fasthttp reuses its memory.
func requestOf(c fiber.Ctx) *http.Request {
	in := &c.RequestCtx().Request
	r := &http.Request{
		Method: string(in.Header.Method()), RequestURI: string(in.Header.RequestURI()), Host: string(in.Host()),
		RemoteAddr: c.RequestCtx().RemoteAddr().String(), Header: make(http.Header, in.Header.Len()),
	}
	for name, value := range in.Header.All() {
		r.Header.Add(string(name), string(value))
	}
	return r.WithContext(c.Context())
}

// writer writes a response into the response of fasthttp.
type writer struct {
	c      fiber.Ctx
	header http.Header
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) WriteHeader(status int)      { w.c.Status(status) }
func (w *writer) Write(b []byte) (int, error) { return w.c.Write(b) }

// setHeader adds the fields to the fields that other handlers set; if a field can have only one value, it replaces
// their value.
func (w *writer) setHeader() {
	for name, values := range w.header {
		for _, value := range values {
			if name == fiber.HeaderVary || name == fiber.HeaderAccessControlExposeHeaders {
				w.c.Append(name, value)
			} else {
				w.c.Set(name, value)
			}
		}
	}
}
