package hotparamgin_test

import (
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"

	hotparamgin "github.com/hotparam/pipeline/adapters/gin"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/testing/adaptertest"
)

func TestNew_PassesTheAdapterSuite(t *testing.T) {
	gin.SetMode(gin.TestMode)
	adaptertest.Run(t, adaptertest.Site[*gin.Context]{
		ParseAs: "gin",
		Header:  func(c *gin.Context, name string) string { return c.GetHeader(name) },
		Path:    func(c *gin.Context) string { return c.FullPath() },
		Answer:  func(c *gin.Context, status int, text string) error { c.String(status, text); return nil },
		Serve: func(t *testing.T, p *hotparam.Pipeline, o hotparamgin.Options) string {
			r := gin.New()
			r.Use(hotparamgin.New(p, o))
			topic := func(c *gin.Context) { c.String(200, "id="+c.Query("id")) }
			r.GET("/topic", topic)
			r.GET("/health", topic)
			r.GET("/judged", func(c *gin.Context) { c.String(200, adaptertest.Judged(c.Request.Context())) })
			s := httptest.NewServer(r)
			t.Cleanup(s.Close)
			return s.Listener.Addr().String()
		},
	})
}

func TestPipeline_CachesAroundGin(t *testing.T) {
	gin.SetMode(gin.TestMode)
	r, n := gin.New(), atomic.Int64{}
	r.GET("/topic", func(c *gin.Context) { c.String(200, "answer %d", n.Add(1)) })
	adaptertest.Cached(t, "gin", r)
}

func TestNew_ReportsOutcomes(t *testing.T) {
	gin.SetMode(gin.TestMode)
	adaptertest.Outcomes(t, "gin", func(t *testing.T, p *hotparam.Pipeline, answer func(string) (int, string)) string {
		r := gin.New()
		r.Use(hotparamgin.New(p, hotparamgin.Options{}))
		handler := func(c *gin.Context) { status, text := answer(c.Query("id")); c.String(status, text) }
		r.GET("/topic", handler)
		r.GET("/rest", handler)
		s := httptest.NewServer(r)
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	})
}

func TestNew_KnowsProofs(t *testing.T) {
	gin.SetMode(gin.TestMode)
	adaptertest.Proofs(t, "gin", func(t *testing.T, p *hotparam.Pipeline,
		answer func(adaptertest.Exchange) string) string {
		r := gin.New()
		r.Use(hotparamgin.New(p, hotparamgin.Options{}))
		r.GET("/topic", func(c *gin.Context) {
			c.String(200, answer(adaptertest.Exchange{Get: c.GetHeader, Set: c.Writer.Header().Set}))
		})
		s := httptest.NewServer(r)
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	})
}
