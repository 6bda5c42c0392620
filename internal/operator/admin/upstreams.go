package admin

import (
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// getUpstreams tells what the upstreams bear that adaptive limits follow.
func (s *Server) getUpstreams(w http.ResponseWriter, _ *http.Request) error {
	list := []hottype.UpstreamBound{}
	if s.cfg.Upstreams != nil {
		list = append(list, s.cfg.Upstreams()...)
	}
	return writeJSON(w, http.StatusOK, map[string][]hottype.UpstreamBound{"upstreams": list})
}
