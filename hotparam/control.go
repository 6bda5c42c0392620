package hotparam

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/filestore"
	"github.com/hotparam/pipeline/internal/textfile"
	"github.com/hotparam/pipeline/internal/wait"
)

// SetOverride sets a live override and returns it as it is stored. It replaces the override with the same ID, or with
// the same target, schedule and mode. It applies to the next request here, and with Config.Shared to the requests of
// all processes a moment later. Its Key may be written in any spelling. It precedes the overrides of Rules. The error
// says so if no request can meet it, because the rules of this process have no such rule, class or parameter.
func (p *Pipeline) SetOverride(ctx context.Context, o rule.Override) (rule.Override, error) {
	if err := p.checkBuilt(); err != nil {
		return rule.Override{}, err
	}
	if o.Action == "" {
		o.Action = rule.ActionLimit
	}
	next, err := rules.Override(o).Canonical(p.parts.Gate.Rules())
	if err == nil {
		err = next.Validate()
	}
	if err == nil {
		err = p.parts.Gate.Rules().CheckReach(next)
	}
	if err == nil && next.Expired(time.Now()) {
		err = fmt.Errorf("until %s has passed", next.Until.Format(time.RFC3339))
	}
	if err == nil && next.ID == "" {
		next.ID, err = p.overrideID(ctx, next)
	}
	if err == nil {
		var change rules.Change
		if change, err = p.with.Overrides.PutIf(ctx, next, rules.AnyVersion); err == nil {
			return rule.Override(*change.After), nil
		}
	}
	return rule.Override{}, fmt.Errorf("hotparam: set override: %w", err)
}

// overrideID returns the ID of the live override that o replaces, the first of several, else the default ID of its
// target.
func (p *Pipeline) overrideID(ctx context.Context, o rules.Override) (string, error) {
	live, err := p.with.Overrides.Live(ctx)
	found, now := "", time.Now()
	for id, other := range live.All() {
		if (found == "" || id < found) && o.Replaces(other) && !other.Expired(now) {
			found = id
		}
	}
	if found != "" {
		return found, nil
	}
	return o.DefaultID(), err
}

// RemoveOverride removes a live override by its ID. The error is [rule.ErrNoOverride] if there is none.
func (p *Pipeline) RemoveOverride(ctx context.Context, id string) error {
	if err := p.checkBuilt(); err != nil {
		return err
	}
	if _, err := p.with.Overrides.DeleteIf(ctx, id, "", rules.AnyVersion); err != nil {
		return fmt.Errorf("hotparam: remove override: %w", err)
	}
	return nil
}

// Overrides lists the live overrides that have not ended, by ID: with Config.Shared, the overrides of all processes.
// The overrides of Rules are not included.
func (p *Pipeline) Overrides(ctx context.Context) ([]rule.Override, error) {
	if err := p.checkBuilt(); err != nil {
		return nil, err
	}
	live, err := p.with.Overrides.Live(ctx)
	if err != nil {
		return nil, fmt.Errorf("hotparam: overrides: %w", err)
	}
	list, now := []rule.Override{}, time.Now()
	for _, o := range rules.SortedOverrides(live) {
		if !o.Expired(now) {
			list = append(list, rule.Override(o))
		}
	}
	return list, nil
}

// SetRules replaces the rules of this process; nil means the default rules. Requests that are being judged finish with
// the old rules. Aggregators and other processes have rules of their own. Hot keys whose rule still exists stay hot.
// The namespace cannot change.
func (p *Pipeline) SetRules(r *Rules) error {
	if err := p.checkBuilt(); err != nil {
		return err
	}
	set, err := r.orDefault()
	if err != nil {
		return fmt.Errorf("hotparam: set rules: %w", err)
	}
	if now := p.parts.Gate.Rules().Namespace; set.Namespace != now {
		return fmt.Errorf("hotparam: set rules: namespace %q instead of %q: it cannot change; make a new Pipeline",
			set.Namespace, now)
	}
	if p.parts.Aggregate != nil {
		if err := pipeline.CheckRules(set, aggregate.Config{}); err != nil {
			return fmt.Errorf("hotparam: set rules: %w", err)
		}
	}
	for _, w := range set.Warnings {
		p.options.Log.Warn("hotparam: rules: " + w)
	}
	p.parts.SetRules(set)
	p.options.Clients.Set(set.IP.TrustedProxies, set.IP.Client)
	p.events.recordRules(nil)
	return nil
}

// WatchRules replaces the rules by the rules of a file each time that the file has changed and has not been written for
// a second, the first time after about a second, until ctx ends. A file that cannot be used changes nothing and is an
// error in the log.
func (p *Pipeline) WatchRules(ctx context.Context, path string, options ...RulesOption) {
	p.mustBeBuilt()
	var w textfile.Watch
	wait.Every(ctx, textfile.Look, func() {
		now := time.Now()
		info, _ := os.Stat(path) // a missing file is nil, and an error when it is read
		if !w.Settled(now, info) {
			if w.StillChanging(now) {
				p.options.Log.Error("hotparam: rules not changed: the file keeps changing", "file", path)
			}
			return
		}
		r, err := LoadRules(path, options...)
		if after, _ := os.Stat(path); !textfile.Same(info, after) {
			return // written meanwhile; the next check finds the change
		}
		w.Done()
		if err == nil {
			err = p.SetRules(r)
		}
		if err != nil {
			p.events.recordRules(err)
			p.options.Log.Error("hotparam: rules not changed, those from before hold", "file", path, "err", err)
			return
		}
		p.options.Log.Info("hotparam: rules read", "file", path, "rules", len(r.set.Rules))
	})
}

// newAlone builds a pipeline of one process, whose live overrides are in a directory, or in memory if there is no
// directory. The pipeline does not follow them yet.
func newAlone(cfg *Config, parts pipeline.Config) (*pipeline.Connected, *filestore.Overrides, error) {
	p, err := pipeline.InProcess(parts, aggregate.Config{Log: cfg.Log})
	if err != nil {
		return nil, nil, err
	}
	store := filestore.InMemory()
	if cfg.StateDir != "" {
		if store, err = filestore.OpenOverrides(cfg.StateDir); err != nil {
			return nil, nil, fmt.Errorf("Config.StateDir: %w", err)
		}
		if missing := store.Missing(); missing != "" {
			cfg.Log.Warn("hotparam: Config.StateDir is not as it was left: " + missing)
		}
	}
	p.KeepSecrets(store.PassSecrets(cfg.Log))
	p.KeepBases(store.Latencies(""))
	p.Add(lifecycle.Sinks, "trim", func(ctx context.Context) error {
		wait.Every(ctx, time.Minute, func() {
			if _, err := store.Trim(time.Now()); err != nil {
				cfg.Log.Warn("hotparam: overrides that have ended are still in Config.StateDir", "err", err)
			}
		})
		return nil
	})
	reports := func(ctx context.Context) ([]report.Limiter, error) {
		r := p.Gate.Report(time.Now())
		var err error
		r.OverridesRevision, err = store.Revision(ctx)
		return []report.Limiter{r}, err
	}
	return &pipeline.Connected{Pipeline: p, Overrides: store, Reports: reports, Close: store.Close}, store, nil
}
