package admin

import "github.com/prometheus/client_golang/prometheus"

// Registry has the metrics of s.
func (s *Server) Registry() *prometheus.Registry { return s.registry }
