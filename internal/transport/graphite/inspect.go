package graphite

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Inspection is what a look at Graphite found. It is plain: package doctor
// judges it.
type Inspection struct {
	URL string
	// Err is why the metrics cannot be read; it says what to do. Then what
	// follows is empty.
	Err string
	// PollErr is why the polls, which use functions, are refused.
	PollErr string
	// Version is that of graphite-web, "" where it does not say.
	Version string
	// ClockAhead is its clock less this machine's, to about a second.
	ClockAhead time.Duration
	ClockKnown bool
	// Series is how many metrics of ours were found, at most 100 a rule.
	Series int
	// Step is the distance between their points, 0 where there are no two.
	Step time.Duration
	// Age is how long ago the newest point was; negative where there is none.
	Age time.Duration
	// Flush is the flush interval in the poller's configuration.
	Flush time.Duration
}

// inspected is how far back Inspect looks, in seconds.
const inspected = 600

// Inspect asks for some metrics of each rule without functions that choose,
// then what Poll asks. It hands over no counts. Not while Poll runs.
func (p *Poller) Inspect(ctx context.Context) Inspection {
	in := Inspection{URL: p.where, Flush: p.cfg.Flush, Age: -1}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	var newest int64
	for _, r := range p.cfg.Rules.Rules {
		query := "target=" + url.QueryEscape("limit("+p.cfg.pathOf(r)+",100)")
		err := p.fetch(ctx, query, inspected, func(s *series) {
			in.Series++
			points, step, _, _ := s.buckets(nil)
			if d := time.Duration(step) * time.Second; step > 0 && (in.Step == 0 || d < in.Step) {
				in.Step = d
			}
			if len(points) > 0 {
				newest = max(newest, points[len(points)-1].at)
			}
		})
		if err != nil {
			in.Err = err.Error()
			return in
		}
	}
	plan := p.plan.Load()
	for _, query := range plan.queries {
		if err := p.fetch(ctx, query, plan.lookback, func(*series) {}); err != nil {
			in.PollErr = err.Error()
			break
		}
	}
	in.ClockAhead, in.ClockKnown = p.difference, p.clockKnown
	if newest > 0 {
		in.Age = max(0, p.cfg.Now().Add(p.difference).Sub(time.Unix(newest, 0)))
	}
	in.Version = p.version(ctx)
	return in
}

// version asks graphite-web for its version; others do not say.
func (p *Poller) version(ctx context.Context) string {
	req, err := p.request(ctx, "", 1)
	if err != nil {
		return ""
	}
	req.URL = req.URL.JoinPath("../version/")
	req.URL.RawQuery = ""
	res, err := p.client.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 40))
	v := strings.TrimSpace(string(text))
	if res.StatusCode != http.StatusOK || strings.Trim(v, "0123456789.-abcdefghijklmnopqrstuvwxyz") != "" {
		return ""
	}
	return v
}
