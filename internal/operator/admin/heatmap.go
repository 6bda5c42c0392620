package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/internal/detection/history"
)

const (
	usualHeatmap = 40  // keys
	maxHeatmap   = 200 // keys
	maxCells     = 400 // of a key
)

// steps are how long a cell may be. Hours are kept summed up, so the longest are quick.
var steps = []time.Duration{
	time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
}

// getHeatmap answers when the heaviest keys were asked for: GET /v1/history/heatmap?from&to&keys.
func (s *Server) getHeatmap(w http.ResponseWriter, r *http.Request) error {
	q, err := historyQuery(r, s.cfg.Now())
	if err != nil {
		return err
	}
	keys, err := queryInt(r, "keys", usualHeatmap, maxHeatmap)
	if err != nil {
		return err
	}
	m := history.HeatmapQuery{From: q.From, To: q.To, Keys: keys}
	for _, m.Step = range steps {
		if q.To.Sub(q.From) <= maxCells*m.Step {
			break
		}
	}
	m.From = m.From.Truncate(min(m.Step, time.Hour)) // cells begin with minutes and hours
	if q.To.Sub(m.From) > (maxCells+1)*m.Step {
		return badField("from", "from and to are more than 33 years apart", "give a later from")
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyWithin)
	defer cancel()
	a, err := s.cfg.History.Heatmap(ctx, m)
	if err != nil {
		return unreadHistory(err)
	}
	for i := range a.Keys {
		a.Keys[i].Href = keyHref(a.Keys[i].Key)
	}
	return writeJSON(w, http.StatusOK, a)
}
