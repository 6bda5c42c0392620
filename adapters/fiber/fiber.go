// Package hotparamfiber puts a pipeline before the handlers of fiber, version 3:
//
//	app := fiber.New()
//	app.Use(hotparamfiber.New(p, hotparamfiber.Options{}))
//
// fasthttp reads a request in a way of its own. The pipeline gets the request line as it was received; say "parse_as:
// fiber" in the rules, so that all spellings of a request have one key.
package hotparamfiber

import (
	"errors"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
)

// Options are those of all adapters, with functions that take fiber's context.
type Options = hotparam.Options[fiber.Ctx]

// New gives a handler for Use. What Deny and OnClientError return goes to fiber's error handler. It panics on
// options that mean nothing.
func New(p *hotparam.Pipeline, o Options) fiber.Handler {
	layer := adapter.New(p, o)
	return func(c fiber.Ctx) error {
		w := &writer{c: c, header: http.Header{}}
		j, err := layer.Enforce(c, w, request(c))
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

// statusOf is the status of an answer, which fasthttp sends when all handlers have returned.
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

// request is the request as fasthttp received it. All of it is copied: fasthttp uses its memory again.
func request(c fiber.Ctx) *http.Request {
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

// writer writes an answer into that of fasthttp.
type writer struct {
	c      fiber.Ctx
	header http.Header
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) WriteHeader(status int)      { w.c.Status(status) }
func (w *writer) Write(b []byte) (int, error) { return w.c.Write(b) }

// setHeader adds the fields to those that other handlers set; a value of which there can be only one replaces theirs.
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
