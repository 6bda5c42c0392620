package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/doctor"
	"github.com/hotparam/pipeline/internal/rules"
)

// cache inspects the response cache of the program at --admin.
func (c *doctorCmd) cache(ctx context.Context, set *rules.Set) []doctor.Finding {
	in := doctor.CacheInspection{Admin: config.Redact(c.Admin)}
	if c.Admin != "" {
		admin := adminFlags{Admin: c.Admin, adminAccess: c.adminAccess, Timeout: c.Timeout}
		page, err := admin.ask(ctx, question{path: "/metrics"}, nil)
		if err != nil {
			in.Err = err.Error()
		}
		in.Present, in.Silent = silentUpstreams(string(page.body))
	}
	return doctor.Cache(in, set)
}

// silentUpstreams reads what a response cache reports of its upstreams in /metrics. known is false if the page is that
// of a program without a response cache.
func silentUpstreams(page string) (known bool, silent []doctor.SilentUpstream) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "hotparam_cache_hits_total ") {
			known = true
		}
		var s doctor.SilentUpstream
		if n, _ := fmt.Sscanf(line, "hotparam_cache_silent_answers_total{rule=%q,upstream=%q} %g",
			&s.Rule, &s.Upstream, &s.Stored); n == 3 {
			silent = append(silent, s)
		}
	}
	return known, silent
}
