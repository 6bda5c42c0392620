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
	"maps"
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v3"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Options are the options of all adapters, with functions that take fiber's context.
type Options = hotparam.Options[fiber.Ctx]

// New returns a handler for Use. Errors that Deny and OnClientError return go to fiber's error handler. It panics on
// invalid options.
func New(p *hotparam.Pipeline, o Options) fiber.Handler {
	layer := adapter.New(p, o)
	return func(c fiber.Ctx) error {
		w, r := &writer{c: c, header: http.Header{}}, requestOf(c)
		cookies, class := r.Header[fiber.HeaderCookie], r.Header[hottype.FieldGrant]
		j, err := layer.Enforce(c, w, r)
		w.setHeader()
		if err != nil || j == nil {
			return err
		}
		defer j.Done()
		replaceField(&c.RequestCtx().Request.Header, fiber.HeaderCookie, cookies, r.Header[fiber.HeaderCookie])
		replaceField(&c.RequestCtx().Request.Header, hottype.FieldGrant, class, r.Header[hottype.FieldGrant])
		if o.InContext {
			c.SetContext(j.Context(c.Context()))
		}
		err = c.Next()
		answered := w.takeHeader()
		j.ResponseStarted(statusOf(c, err))
		w.replaceHeader(answered)
		return err
	}
}

// header is the header of a request or a response of fasthttp.
type header interface {
	Del(name string)
	Add(name, value string)
}

// replaceField changes the values of a field.
func replaceField(h header, name string, before, after []string) {
	if slices.Equal(before, after) { // fasthttp would write them in its own way
		return
	}
	h.Del(name)
	for _, value := range after {
		h.Add(name, value)
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

// takeHeader takes the header of a response that grants a class, for ResponseStarted, and returns a copy, or nil if the
// response grants none.
func (w *writer) takeHeader() (answered http.Header) {
	clear(w.header)
	h := &w.c.RequestCtx().Response.Header
	if len(h.PeekAll(hottype.FieldGrant)) == 0 {
		return nil
	}
	for name, value := range h.All() {
		w.header.Add(string(name), string(value))
	}
	return maps.Clone(w.header)
}

// replaceHeader makes the changes that ResponseStarted has made in the header of the response.
func (w *writer) replaceHeader(answered http.Header) {
	for name, values := range answered {
		replaceField(&w.c.RequestCtx().Response.Header, name, values, w.header[name])
	}
	for name, values := range w.header {
		if answered[name] == nil {
			replaceField(&w.c.RequestCtx().Response.Header, name, nil, values)
		}
	}
}

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
