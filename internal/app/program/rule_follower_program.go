package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/filestore"
)

// firstReadTimeout is the time for which a start waits for the store before it uses the copy.
const firstReadTimeout = 3 * time.Second

// FollowRules opens the store from which a program has its rules, and returns the parser with the rules to begin with:
// the rules of the store, or else their last good copy, or else the rules of the file. Without --rules it returns nil
// and the unchanged parser.
func FollowRules(ctx context.Context, cfg CentralConfig, file *config.Parser, check func(*rules.Set) error,
	log *slog.Logger) (*ruleFollower, *config.Parser, error) {
	if cfg.Rules == "" {
		return nil, file, nil
	}
	if cfg.Open == nil {
		return nil, nil, config.InOneProcess("rules")
	}
	set, err := file.Rules()
	if err != nil {
		return nil, nil, err
	}
	c := &ruleFollower{
		name: cfg.Rules, copy: filestore.NewRulesCopy(cfg.State.Dir, set.Namespace),
		log: log, updates: make(chan *rules.Stored, 1),
	}
	if c.store, c.close, err = cfg.Open(cfg, set.Namespace, log); err != nil {
		return nil, nil, err
	}
	first, err := c.findFirstRules(ctx, file, check)
	if err != nil {
		return nil, nil, errors.Join(err, c.close())
	}
	return c, first, nil
}

// CentralConfig names the central store of rules, and holds the settings that a follower of it needs.
type CentralConfig struct {
	config.RuleSource
	Redis config.Redis
	State config.State // has the directory of the last good copy
	Open  OpenRules    // nil: the program has no central store
}

// findFirstRules finds the rules to start with. It logs why better ones cannot be used.
func (f *ruleFollower) findFirstRules(ctx context.Context, file *config.Parser,
	check func(*rules.Set) error) (*config.Parser, error) {
	short, cancel := context.WithTimeout(ctx, firstReadTimeout)
	stored, storeErr := f.store.Read(short)
	cancel()
	if storeErr == nil && stored == nil {
		storeErr = errNoRules
	}
	if storeErr == nil {
		if p, err := f.applyFirst(file, stored, check); err == nil {
			f.applied, f.seen, f.copyErr = true, stored, f.saveCopy(stored)
			return p, nil
		} else {
			storeErr, f.rejected, f.rejectErr = err, stored.Revision, err
		}
	}
	f.readErr = storeErr
	saved, copyErr := f.copy.Load()
	if saved != nil {
		p, err := f.applyFirst(file, saved, check)
		if err == nil {
			f.log.Warn("the rules are the last good copy of those in the store", "store", f.name, "version",
				f.running.Version, "copy", f.copy.Path(), "err", storeErr)
			return p, nil
		}
		copyErr = err
	}
	if copyErr != nil {
		f.log.Error("the copy of the rules cannot be used", "copy", f.copy.Path(), "err", copyErr)
	}
	if file.HasRules() {
		f.log.Warn("the rules of the file are in force until the store has rules", "store", f.name, "file", file.Path(),
			"err", storeErr)
		return file, nil
	}
	return nil, fmt.Errorf("no rules to begin with: --rules %s: %w; there is no copy of them at %s, and --config "+
		"names no file with rules. Give it one, and put it into the store by hotparam rules push", f.name, storeErr,
		f.copy.Path())
}

// applyFirst checks the rules with which a program would start, and records them as running.
func (f *ruleFollower) applyFirst(file *config.Parser, stored *rules.Stored,
	check func(*rules.Set) error) (*config.Parser, error) {
	p, _, err := f.checkRevision(file, stored.Revision, check)
	if err != nil {
		return nil, err
	}
	f.running, f.wanted = stored.Revision, stored.Revision
	return p, nil
}

// checkRevision returns the parser and the rules with which this program would run revision r.
func (f *ruleFollower) checkRevision(file *config.Parser, r rules.Revision,
	check func(*rules.Set) error) (*config.Parser, *rules.Set, error) {
	next, err := file.WithRules(fmt.Sprintf("version-%d.yaml", r.Version), r.Text)
	if err != nil {
		return nil, nil, err
	}
	set, restart, err := checkReload(file, next, check)
	if len(restart) > 0 {
		err = fmt.Errorf("%s: namespace %q differs from the namespace of this program", next.RulesFrom(), set.Namespace)
	}
	return next, set, err
}

type ruleAdmin struct {
	*ruleFollower
	reload *Reloader
}

var _ admin.RuleStore = ruleAdmin{}

func (a ruleAdmin) State() admin.RulesState {
	a.mu.Lock()
	defer a.mu.Unlock()
	st := admin.RulesState{Store: a.name, Running: a.running.Version, Rejected: a.rejected.Version}
	if a.rejectErr != nil {
		st.Why = a.rejectErr.Error()
	}
	return st
}

// Read returns the contents of the store, or an error together with the last contents that were read.
func (a ruleAdmin) Read(ctx context.Context) (*rules.Stored, error) {
	stored, err := a.store.Read(ctx)
	if err == nil {
		return stored, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen, err
}

func (a ruleAdmin) History(ctx context.Context) ([]rules.Revision, error) {
	return a.store.History(ctx)
}

// Check returns the rules of a change as this program would run them.
func (a ruleAdmin) Check(ctx context.Context, r rules.Revision) (*rules.Set, error) {
	set, err := a.reload.validate(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", changes.ErrRejected, err)
	}
	return set, nil
}

// Change stores a change on top of version before. Rules that this program would reject are not written.
func (a ruleAdmin) Change(ctx context.Context, before int64, r rules.Revision) (*rules.Stored, error) {
	stored, err := a.store.Read(ctx)
	if err != nil {
		return nil, err
	}
	if versionOf(stored) != before && before != rules.AnyVersion {
		return nil, rules.ErrConflict
	}
	next, err := stored.With(r, a.maxVersion())
	if err == nil {
		_, err = a.reload.validate(ctx, next.Revision)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", changes.ErrRejected, err)
	}
	return next, a.store.Write(ctx, versionOf(stored), next)
}

// maxVersion returns the highest version that this process has seen.
func (f *ruleFollower) maxVersion() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(versionOf(f.seen), f.running.Version)
}

func versionOf(s *rules.Stored) int64 {
	if s == nil {
		return 0
	}
	return s.Version
}

// addToAdmin adds the failure of the last reload to the status lines of an admin page, and the central store of rules
// to its API and its readiness.
func (r *Reloader) addToAdmin(c admin.Config) admin.Config {
	if r.rules != nil {
		c.Central = ruleAdmin{r.rules, r}
		ready := map[string]func(context.Context) error{"rules": r.rules.checkReady}
		maps.Copy(ready, c.Ready)
		c.Ready = ready
	}
	addStatus(&c, func() (list []admin.Status) {
		if r.rules != nil {
			list = append(list, r.rules.adminStatus())
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.lastFailure != "" {
			list = append(list, admin.Status{Name: "configuration",
				Value: "the last reload was rejected: " + r.lastFailure})
		}
		return list
	})
	return c
}

func addStatus(c *admin.Config, more func() []admin.Status) {
	before := c.Status
	c.Status = func() (list []admin.Status) {
		if before != nil {
			list = before()
		}
		return append(list, more()...)
	}
}
