package admin

import (
	"context"
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// purgeHistory removes what is kept of a key: DELETE /v1/history?key=. Who did it is written down, the key is not: it
// may be what must be gone.
func (s *Server) purgeHistory(w http.ResponseWriter, r *http.Request) error {
	const remedy = "give the whole key, such as ?key=topic%3Fid=42"
	text := r.URL.Query().Get("key")
	if text == "" {
		return badField("key", "there is no key", remedy)
	}
	canonical, err := canonicalKey(text)
	if err != nil {
		return badField("key", err.Error(), remedy)
	}
	if canonical, err = s.redacted(canonical); err != nil {
		return err
	}
	key := hottype.Key(canonical)
	ctx, cancel := context.WithTimeout(r.Context(), historyWithin)
	defer cancel()
	rows, err := s.cfg.History.Purge(ctx, key)
	if err != nil {
		return newProblem(http.StatusServiceUnavailable, "the history was not purged: "+err.Error(),
			"try again; look at the state directory")
	}
	s.mu.Lock()
	s.seconds.remove(key)
	s.recent.forget(key)
	s.mu.Unlock()
	who := author(r, r.URL.Query().Get("author"))
	s.rememberChange(&Change{At: s.cfg.Now(), Kind: historyPurged, Author: who})
	s.cfg.Log.Info("admin: the history of a key was purged", "rows", rows, "author", who)
	return writeJSON(w, http.StatusOK, map[string]int64{"rows": rows})
}
