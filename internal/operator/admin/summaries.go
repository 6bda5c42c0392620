package admin

import (
	"fmt"
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// getSummaries lists the days that are kept, newest first.
func (s *Server) getSummaries(w http.ResponseWriter, r *http.Request) error {
	list := []hottype.Summary{}
	if s.cfg.Summaries != nil {
		found, err := s.cfg.Summaries(r.Context())
		if err != nil {
			return fmt.Errorf("admin: summaries cannot be read: %w", err)
		}
		list = append(list, found...)
	}
	writeJSON(w, http.StatusOK, map[string]any{"summaries": list})
	return nil
}
