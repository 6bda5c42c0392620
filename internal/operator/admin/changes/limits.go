package changes

import (
	"fmt"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// Shown is the page's view of the targets of overrides.
type Shown interface {
	// Limits returns the limit in force for the target of an override, and the limit of the rules for it.
	Limits(o rules.Override, now time.Time) (inForce, byRule Limit)
	// IsListed reports whether the target of an override is in a list of the page now.
	IsListed(list string, o rules.Override, now time.Time) bool
}

// Limit is a limit in force. The zero Limit means that there is no limit.
type Limit struct {
	PerSecond float64 // 0 if it is not a rate
	Text      string  // "20/s, burst 20"
	Blocks    bool
}

// raiseWarnings returns warnings about an override that allows more than the limit in force or the limit of the rules.
func (s *Service) raiseWarnings(o rules.Override) []string {
	if o.Action != rules.ActionLimit || o.InShadow() {
		return nil
	}
	inForce, byRule := s.cfg.Live.Limits(o, s.cfg.Now())
	isAbove := func(l Limit) bool { return l.PerSecond > 0 && o.Rate > l.PerSecond*(1+1e-5) }
	var list []string
	switch {
	case inForce.Blocks:
		list = append(list, "it lets requests pass that are blocked now")
	case isAbove(inForce):
		list = append(list, "it raises the limit in force, "+inForce.Text)
	}
	if isAbove(byRule) && (byRule != inForce || len(list) == 0) {
		list = append(list, "it is above the limit of the rules, "+byRule.Text)
	}
	return list
}

// lists are the lists of the page from which a person takes the target of an override.
var lists = map[string]string{
	"hot": "is no longer hot", "loop": "is no longer the heaviest client of a loop",
	"denied": "is no longer among the denied clients", "heaviest": "is no longer among the heaviest clients",
}

// checkRow returns a problem if the request names the list of the page from which its target was taken, and the target
// is no longer in that list. A list can change before a person clicks.
func (s *Service) checkRow(r *http.Request, o rules.Override) error {
	row := r.URL.Query().Get("row")
	if row == "" {
		return nil
	}
	text, known := lists[row]
	if !known {
		return web.BadField("row", "row is "+web.Quoted(row), "give hot, loop, denied or heaviest, or leave it out")
	}
	if s.cfg.Live.IsListed(row, o, s.cfg.Now()) {
		return nil
	}
	p := web.NewProblem(http.StatusPreconditionFailed, fmt.Sprintf("%s %s; nothing was stored",
		web.Quoted(o.Target().String()), text), "send it without row if it is meant all the same")
	p.Field = "row"
	return p
}
