package changes

import (
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// Sources of an override.
const (
	SourceLive = "live" // in the store: may be changed here
	SourceFile = "file" // in the rules file
)

// View is an override and where it is written.
type View struct {
	rules.Override
	Source string `json:"source"`
	// Active says whether it holds right now; Next is for one with a schedule:
	// when it will hold next, or until when it holds.
	Active bool      `json:"active"`
	Next   time.Time `json:"next,omitzero"`
	// Hits are the decisions that it was part of in the limiters that report, since they have it;
	// nil in events, and while no limiter has reported twice.
	Hits          *uint64  `json:"hits,omitempty"`
	HitsPerSecond *float64 `json:"hits_per_second,omitempty"`
	// WouldDeny are those of Hits that it would have denied, of one in shadow mode.
	WouldDeny          *uint64  `json:"would_deny,omitempty"`
	WouldDenyPerSecond *float64 `json:"would_deny_per_second,omitempty"`
	// Warnings are what its author may not have meant.
	Warnings []string `json:"warnings,omitempty"`
}

// Viewed shows an override at one moment.
func Viewed(o rules.Override, source string, now time.Time) View {
	v := View{Override: withID(o), Source: source, Active: !o.Expired(now)}
	if o.Schedule.IsZero() {
		return v
	}
	w := o.Window(now)
	if v.Active = w.Holds(now); v.Active {
		v.Next = w.Until
	} else {
		v.Next = w.From
	}
	return v
}

// ViewOf tells a live override from one of the file by its ID.
func ViewOf(o *rules.Override, live []rules.Override, now time.Time) *View {
	if o == nil {
		return nil
	}
	v := Viewed(*o, SourceFile, now)
	if slices.ContainsFunc(live, func(l rules.Override) bool { return l.ID == o.ID && l.Replaces(*o) }) {
		v.Source = SourceLive
	}
	return &v
}

// withID gives an override of the rules file the ID that its key makes.
func withID(o rules.Override) rules.Override {
	if o.ID == "" {
		o.ID = o.DefaultID()
	}
	return o
}

// Listed is every override that has not ended at now: the live ones, newest
// first, and those of the file that no live one of the same target replaces. One
// with a schedule replaces none, because it holds only at times, and one in shadow mode
// none but those in shadow mode.
func Listed(set *rules.Set, live []rules.Override, now time.Time) []View {
	views := []View{}
	type place struct {
		of   rules.Target
		mode hottype.Mode
	}
	replaced := map[place]bool{}
	for _, o := range live {
		if o.Expired(now) {
			continue
		}
		views = append(views, Viewed(o, SourceLive, now))
		if o.Schedule.IsZero() {
			replaced[place{o.Target(), o.Mode}] = true
			replaced[place{o.Target(), hottype.ModeShadow}] = true
		}
	}
	slices.SortStableFunc(views, func(a, b View) int { return b.Created.Compare(a.Created) })
	for _, o := range set.Overrides {
		if !o.Expired(now) && !replaced[place{o.Target(), o.Mode}] {
			views = append(views, Viewed(o, SourceFile, now))
		}
	}
	return views
}
