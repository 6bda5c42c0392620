package admin

import (
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// purgeKey takes out the answers that the response cache of this process holds for a key.
func (s *Server) purgeKey(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Purge == nil {
		return newProblem(http.StatusNotFound, "this program has no response cache",
			"ask each limiter that is a reverse proxy, or hotparam serve")
	}
	key, err := pathKey(r.PathValue("key"))
	if err != nil {
		return err
	}
	n := s.cfg.Purge(hottype.Key(key))
	s.cfg.Log.Info("admin: answers purged", "key", key, "answers", n, "author", author(r, r.URL.Query().Get("author")))
	writeJSON(w, http.StatusOK, purged{Key: key, Purged: n})
	return nil
}

type purged struct {
	Key    string `json:"key"`
	Purged int    `json:"purged"` // answers
}
