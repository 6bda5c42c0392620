// Package hotparamgin puts a pipeline before the handlers of gin:
//
//	r := gin.New()
//	r.Use(hotparamgin.New(p, hotparamgin.Options{}))
//
// Requests are read as the server received them, independently of their route. Set "parse_as: gin" in the rules, so
// that all spellings of a request have one key.
package hotparamgin

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
)

// Options are the options of all adapters, with functions that take gin's context.
type Options = hotparam.Options[*gin.Context]

// New returns a handler for Use. Errors that Deny and OnClientError return are added to the context's errors. It panics
// on invalid options.
func New(p *hotparam.Pipeline, o Options) gin.HandlerFunc {
	layer := adapter.New(p, o)
	return func(c *gin.Context) {
		j, err := layer.Enforce(c, c.Writer, c.Request)
		if err != nil {
			_ = c.Error(err) // returns err itself
		}
		if j == nil {
			c.Abort()
			return
		}
		defer j.Done()
		c.Writer = &writer{c.Writer, j}
		c.Next()
		j.ResponseStarted(c.Writer.Status())
	}
}

// writer reports to judged when the response begins.
type writer struct {
	gin.ResponseWriter
	judged *adapter.Decision
}

// Unwrap returns gin's writer, so that http.ResponseController finds it.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) Write(b []byte) (int, error) {
	w.judged.ResponseStarted(w.Status())
	return w.ResponseWriter.Write(b)
}

func (w *writer) WriteString(s string) (int, error) {
	w.judged.ResponseStarted(w.Status())
	return w.ResponseWriter.WriteString(s)
}

func (w *writer) WriteHeaderNow() {
	w.judged.ResponseStarted(w.Status())
	w.ResponseWriter.WriteHeaderNow()
}

func (w *writer) Flush() {
	w.judged.ResponseStarted(w.Status())
	w.ResponseWriter.Flush()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.Hijack()
	if err == nil {
		w.judged.ResponseStarted(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}
