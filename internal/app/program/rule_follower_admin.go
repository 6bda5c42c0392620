package program

import (
	"context"
	"fmt"
	"maps"

	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/rules"
)

// ruleAdmin is what the admin page does with a central store of rules.
type ruleAdmin struct {
	*ruleFollower
	reload *reloader
}

var _ admin.RuleStore = ruleAdmin{}

// State tells which rules this program runs.
func (a ruleAdmin) State() admin.RulesState {
	a.mu.Lock()
	defer a.mu.Unlock()
	st := admin.RulesState{Store: a.name, Running: a.running.Version, Refused: a.rejected.Version}
	if a.rejectErr != nil {
		st.Why = a.rejectErr.Error()
	}
	return st
}

// Read gives what the store holds; nil: nothing.
func (a ruleAdmin) Read(ctx context.Context) (*rules.Stored, error) { return a.store.Read(ctx) }

// History gives the last changes, newest first.
func (a ruleAdmin) History(ctx context.Context) ([]rules.Revision, error) {
	return a.store.History(ctx)
}

// Check reads the rules of a change as this program would run them.
func (a ruleAdmin) Check(ctx context.Context, r rules.Revision) (*rules.Set, error) {
	set, err := a.reload.validate(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", admin.ErrRefused, err)
	}
	return set, nil
}

// Change makes a change on top of the version before. Rules that this program would not take are not
// written.
func (a ruleAdmin) Change(ctx context.Context, before int64, r rules.Revision) (*rules.Stored, error) {
	stored, err := a.store.Read(ctx)
	if err != nil {
		return nil, err
	}
	if versionOf(stored) != before && before != admin.AnyVersion {
		return nil, rules.ErrConflict
	}
	next, err := stored.With(&r, a.maxVersion())
	if err == nil && r.Text != "" {
		_, err = a.reload.validate(ctx, r)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", admin.ErrRefused, err)
	}
	return next, a.store.Write(ctx, versionOf(stored), next, &r)
}

// maxVersion is the highest version that this process has heard of.
func (c *ruleFollower) maxVersion() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(versionOf(c.seen), c.running.Version)
}

func versionOf(s *rules.Stored) int64 {
	if s == nil {
		return 0
	}
	return s.Version
}

// shownBy adds the failure of the last reload to the status line of an admin page, and the central store of
// rules to its API and its readiness.
func (r *reloader) shownBy(c admin.Config) admin.Config {
	status := c.Status
	if r.rules != nil {
		c.Central = ruleAdmin{r.rules, r}
		ready := map[string]func(context.Context) error{"rules": r.rules.check}
		maps.Copy(ready, c.Ready)
		c.Ready = ready
	}
	c.Status = func() (list []admin.Status) {
		if status != nil {
			list = status()
		}
		if r.rules != nil {
			list = append(list, r.rules.status())
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.why != "" {
			list = append(list, admin.Status{Name: "configuration", Value: "the last reload was refused: " + r.why})
		}
		return list
	}
	return c
}
