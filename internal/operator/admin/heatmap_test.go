package admin

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/detection/history"
)

// A row of the heatmap has at most some hundred cells, which begin with minutes and hours.
func TestHeatmap_HasCellsThatFit(t *testing.T) {
	t.Parallel()
	h := kept{answer: history.Answer{Events: []history.Event{}}}
	w, s := newWorld(t, func(c *Config) { c.History = &h }), loadSchemas(t)
	for span, want := range map[time.Duration]history.HeatmapQuery{
		time.Hour:           {From: t0.Add(-time.Hour), Step: time.Minute},
		6 * time.Hour:       {From: t0.Add(-6 * time.Hour), Step: time.Minute},
		24 * time.Hour:      {From: t0.Add(-24 * time.Hour), Step: 10 * time.Minute},
		7 * 24 * time.Hour:  {From: t0.Add(-7 * 24 * time.Hour), Step: time.Hour},
		90 * time.Second:    {From: t0.Add(-2 * time.Minute), Step: time.Minute},
		500*time.Hour + 600: {From: t0.Add(-501 * time.Hour), Step: 6 * time.Hour},
	} {
		target := fmt.Sprintf("/v1/history/heatmap?from=%d&to=%d&keys=7", t0.Add(-span).Unix(), t0.Unix())
		s.answer(t, w.ask(http.MethodGet, target, ""), 200, "Heatmap")
		want.To, want.Keys = t0, 7
		if h.heatmap != want {
			t.Errorf("%v: asked %+v, want %+v", span, h.heatmap, want)
		}
	}
	var a history.Heatmap
	decode(t, w.ask(http.MethodGet, "/v1/history/heatmap", "").Body.Bytes(), &a)
	if h.heatmap.Keys != 40 || h.heatmap.From != t0.Add(-time.Hour) ||
		a.Keys[0].Href != "/v1/key?key=topic%3Fid%3D42" {
		t.Errorf("%+v, asked %+v", a, h.heatmap)
	}
	for _, bad := range []string{"from=0", "keys=0", "keys=201", "to=x", "from=1773500000"} {
		s.answer(t, w.ask(http.MethodGet, "/v1/history/heatmap?"+bad, ""), 400, "Problem")
	}
	h.fails = errors.New("disk full")
	s.answer(t, w.ask(http.MethodGet, "/v1/history/heatmap", ""), 503, "Problem")
	s.answer(t, newWorld(t, nil).ask(http.MethodGet, "/v1/history/heatmap", ""), 404, "Problem")
}
