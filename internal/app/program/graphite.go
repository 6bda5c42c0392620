package program

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/transport/graphite"
)

// NewPoller takes counts out of Graphite and hands them on.
func NewPoller(cfg config.Graphite, n config.Names, set *rules.Set, handle func([]hottype.Count),
	log *slog.Logger) (*graphite.Poller, error) {
	names, err := metricNames(n)
	if err != nil {
		return nil, err
	}
	targets := make(map[string][]string, len(cfg.Targets))
	for rule, list := range cfg.Targets {
		targets[rule] = list
	}
	header := make(http.Header, len(cfg.Header))
	for name, value := range cfg.Header {
		header.Set(name, value)
	}
	p, err := graphite.New(graphite.Config{
		URL: cfg.URL, Prefix: cfg.Prefix, Suffix: cfg.Suffix, Flush: cfg.Flush, Names: names, Rules: set,
		Targets:  targets,
		Username: cfg.Username, Password: cfg.Password, Header: header,
		Timeout: cfg.Timeout, Settle: cfg.Settle, MaxBody: cfg.MaxBody, MaxSeries: cfg.MaxSeries, Handle: handle,
		Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("%w (settings graphite.*)", err)
	}
	return p, nil
}

// poll asks Graphite on its schedule until ctx ends.
func poll(ctx context.Context, p *graphite.Poller, schedule string, log *slog.Logger) error {
	defer p.Close()
	err := onSchedule(ctx, schedule, log, func(ctx context.Context) error {
		_ = p.Poll(ctx) // it says itself when an outage begins and ends
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w (--graphite.schedule, such as @every 1s or */2 * * * * *)", err)
	}
	return nil
}

// graphiteStatus is the dashboard's line about Graphite.
func graphiteStatus(p *graphite.Poller) admin.Status {
	st := p.Stats()
	switch {
	case st.Err != "":
		return admin.Status{Name: "graphite", Value: st.Err}
	case st.LastSuccess.IsZero():
		return admin.Status{Name: "graphite", Value: "not asked yet"}
	}
	age := time.Since(st.LastSuccess)
	return admin.Status{Name: "graphite", Value: fmt.Sprintf("answered %.1f s ago", age.Seconds()),
		OK: age < time.Minute}
}
