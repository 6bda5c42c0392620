// Package hotparamgin puts a pipeline before the handlers of gin:
//
//	r := gin.New()
//	r.Use(hotparamgin.New(p, hotparamgin.Options{}))
//
// Requests are read as the server received them, whatever route takes them; say "upstream: gin" in the rules, so that all
// spellings of a request have one key.
package hotparamgin

import (
	"github.com/gin-gonic/gin"

	"github.com/hotparam/pipeline/hotparam"
)

// Options are those of all adapters, with functions that take gin's context.
type Options = hotparam.Options[*gin.Context]

// New gives a handler for Use. What Deny and Error return is added to the context's errors. It panics on options that
// mean nothing.
func New(p *hotparam.Pipeline, o Options) gin.HandlerFunc {
	layer := hotparam.NewLayer(p, o)
	return func(c *gin.Context) {
		next, err := layer.Enforce(c, c.Writer, c.Request)
		if err != nil {
			_ = c.Error(err) // gives it back
		}
		if !next {
			c.Abort()
		}
	}
}
