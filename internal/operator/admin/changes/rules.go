package changes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// ErrRejected reports that rules cannot be run and were not stored.
var ErrRejected = errors.New("the rules are rejected")

// maxReasonBytes bounds the reason and the author of a change together, in bytes.
const maxReasonBytes = 1000

// RuleStore is the central store of rules that a program follows. It may be used by many goroutines.
type RuleStore interface {
	// State returns the versions that this program runs and rejects.
	State() RulesState
	// Read returns the contents of the store, or nil if it is empty. With an error it returns the last known contents,
	// or nil.
	Read(ctx context.Context) (*rules.Stored, error)
	// Check returns the rules of a change as this program would run them, or ErrRejected if it cannot.
	Check(ctx context.Context, r rules.Revision) (*rules.Set, error)
	// Change stores a change on top of version before, which is 0 for an empty store, and returns the new contents. It
	// returns rules.ErrConflict if the store holds another version, and ErrRejected if the rules cannot be run.
	Change(ctx context.Context, before int64, r rules.Revision) (*rules.Stored, error)
	// History returns the last changes, newest first.
	History(ctx context.Context) ([]rules.Revision, error)
}

// RulesState describes how a program uses the central store of rules.
type RulesState struct {
	Store string `json:"store"` // redis:
	// Running is the version that the program runs, or 0 if it runs the rules of its file. Rejected is the version that
	// it rejects, or 0, and Why the reason.
	Running  int64  `json:"running"`
	Rejected int64  `json:"refused,omitempty"`
	Why      string `json:"why,omitempty"`
}

type Rules struct {
	RulesState
	Version  int64           `json:"version"` // of the last change; 0 if the store is empty
	Current  *rules.Revision `json:"current,omitempty"`
	Limiters []LimiterRules  `json:"limiters"`
	// StoreError is the reason why the store cannot be read. The last known contents are shown then.
	StoreError string `json:"store_error,omitempty"`
	// LimitersError is the reason why the limiters are not known.
	LimitersError string `json:"limiters_error,omitempty"`
}

type LimiterRules struct {
	Instance string `json:"instance"`
	Running  int64  `json:"running"`
	Rejected int64  `json:"refused,omitempty"`
}

func (s *Service) getRules(w http.ResponseWriter, r *http.Request) error {
	stored, err := s.cfg.Central.Read(r.Context())
	if err != nil && stored == nil {
		return fmt.Errorf("admin: the rules cannot be read: %w", err)
	}
	return s.writeRules(w, r, stored, err)
}

// writeRules answers with the contents of the store, or with the last known contents if it cannot be read.
func (s *Service) writeRules(w http.ResponseWriter, r *http.Request, stored *rules.Stored, unread error) error {
	a := Rules{RulesState: s.cfg.Central.State(), Limiters: []LimiterRules{}}
	if unread != nil {
		a.StoreError = unread.Error()
	}
	if stored != nil {
		a.Version, a.Current = stored.Version, &stored.Revision
	}
	if s.cfg.Reports != nil {
		reports, err := s.cfg.Reports(r.Context())
		if err != nil {
			a.LimitersError = err.Error()
		}
		for _, l := range reports {
			a.Limiters = append(a.Limiters, LimiterRules{l.Instance, l.RulesVersion, l.RejectedRulesVersion})
		}
	}
	w.Header().Set("ETag", formatETag(a.Version))
	return web.WriteJSON(w, http.StatusOK, a)
}

// putRules stores rules. With ?dry_run= it stores nothing.
func (s *Service) putRules(w http.ResponseWriter, r *http.Request) error {
	change, err := s.readRules(w, r)
	if err != nil {
		return err
	}
	dry, err := web.QueryBool(r, "dry_run")
	switch {
	case err != nil:
		return err
	case dry:
		return s.dryRunRules(w, r, change)
	}
	if err := s.checkPush(r, change); err != nil {
		return err
	}
	return s.changeRules(w, r, change)
}

// dryRunRules tries rules on the last minutes of the history: PUT /v1/rules?dry_run=true. Nothing is stored.
func (s *Service) dryRunRules(w http.ResponseWriter, r *http.Request, change rules.Revision) error {
	next, err := s.cfg.Central.Check(r.Context(), change)
	if err != nil {
		return storeError(err)
	}
	c, err := s.storedOverrides(r.Context())
	if err != nil {
		return err
	}
	result, err := s.cfg.DryRun(r.Context(), next, rules.SortedOverrides(c.Live))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, result)
}

func (s *Service) changeRules(w http.ResponseWriter, r *http.Request, change rules.Revision) error {
	before, err := ifMatch(r)
	if err != nil {
		return err
	}
	stored, err := s.cfg.Central.Change(r.Context(), before, change)
	if err != nil {
		return storeError(err)
	}
	s.cfg.Log.Info("admin: rules changed", "version", stored.Version, "author", change.Author, "reason",
		change.Reason)
	return s.writeRules(w, r, stored, nil)
}

func storeError(err error) error {
	switch {
	case errors.Is(err, rules.ErrConflict):
		return web.NewProblem(http.StatusPreconditionFailed, err.Error(),
			"GET /v1/rules, look at the changes, and send it again with the new ETag in If-Match")
	case errors.Is(err, ErrRejected):
		return web.NewProblem(http.StatusUnprocessableEntity, err.Error(), "fix the rules; nothing was stored")
	}
	return fmt.Errorf("admin: the rules were not stored: %w", err)
}

// readRules reads the rules to store, with their author and reason.
func (s *Service) readRules(w http.ResponseWriter, r *http.Request) (change rules.Revision, err error) {
	if change, err = s.revisionOf(r, ""); err != nil {
		return change, err
	}
	text, err := web.Body(w, r, "rules are", rules.MaxText, "split the rules of different namespaces")
	if err != nil {
		return change, err
	}
	if strings.TrimSpace(string(text)) == "" {
		return change, web.NewProblem(http.StatusBadRequest, "the body is empty", "send the YAML of the rules")
	}
	change.Text = string(text)
	return change, nil
}

// revisionOf returns a revision with the author and the reason of a request.
func (s *Service) revisionOf(r *http.Request, text string) (rules.Revision, error) {
	change := rules.Revision{At: s.cfg.Now().UTC().Truncate(time.Second), Author: web.Author(r),
		Reason: r.URL.Query().Get("reason"), Text: text}
	if len(change.Author)+len(change.Reason) > maxReasonBytes {
		return change, web.BadField("reason", fmt.Sprintf("author and reason have more than %d bytes together",
			maxReasonBytes), "say it shorter")
	}
	return change, nil
}

func (s *Service) getRulesHistory(w http.ResponseWriter, r *http.Request) error {
	list, err := s.rulesHistory(r)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string]any{"revisions": withoutTexts(list)})
}

func withoutTexts(list []rules.Revision) []rules.Revision {
	for i := range list {
		list[i].Text = ""
	}
	return list
}

func (s *Service) getRevision(w http.ResponseWriter, r *http.Request) error {
	list, err := s.rulesHistory(r)
	if err != nil {
		return err
	}
	for i := range list {
		if strconv.FormatInt(list[i].Version, 10) == r.PathValue("version") {
			return web.WriteJSON(w, http.StatusOK, list[i])
		}
	}
	return web.NewProblem(http.StatusNotFound,
		"there is no version "+web.Quoted(r.PathValue("version"))+" of the rules",
		"GET /v1/rules/history lists those that are kept")
}

func (s *Service) rulesHistory(r *http.Request) ([]rules.Revision, error) {
	if err := s.checkCentral(); err != nil {
		return nil, err
	}
	list, err := s.cfg.Central.History(r.Context())
	if err != nil {
		return nil, fmt.Errorf("admin: the history of the rules cannot be read: %w", err)
	}
	return append([]rules.Revision{}, list...), nil
}

func (s *Service) checkCentral() error {
	if s.cfg.Central == nil {
		return web.NewProblem(http.StatusNotFound, "this program has its rules from a file",
			"change the file, or start it with --rules")
	}
	return nil
}

func formatETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// ifMatch returns the version of the rules on which a change is based.
func ifMatch(r *http.Request) (int64, error) {
	const remedy = `send If-Match with the ETag that GET /v1/rules gave, or * for whatever is there`
	if r.Header.Get("If-Match") == "" {
		return 0, web.NewProblem(http.StatusPreconditionRequired,
			"there is no If-Match: a change by another person could be lost", remedy)
	}
	return versionOf(r, remedy)
}

// versionOf reads the version in the If-Match of a request. Without If-Match, or with *, it returns rules.AnyVersion.
func versionOf(r *http.Request, remedy string) (int64, error) {
	text := r.Header.Get("If-Match")
	if text == "" || text == "*" {
		return rules.AnyVersion, nil
	}
	version, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64)
	if err != nil || version < 0 || formatETag(version) != text {
		return 0, web.NewProblem(http.StatusBadRequest, "If-Match is "+web.Quoted(text), remedy)
	}
	return version, nil
}
