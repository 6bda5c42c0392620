package changes

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	SourceLive = "live" // in the store: may be changed here
	SourceFile = "file" // in the rules file
)

type View struct {
	rules.Override
	Source string `json:"source"`
	// Version is that of a live override: its ETag without the quotes. Each change of it makes a higher one.
	Version int64 `json:"version,omitempty"`
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

func Viewed(o rules.Override, source string, now time.Time) View {
	v := View{Override: withID(o), Source: source, Version: o.Version(), Active: !o.Expired(now)}
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
	o.ID = cmp.Or(o.ID, o.DefaultID())
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

// overrideInput is an override as a person wrote it, made canonical.
type overrideInput struct {
	override rules.Override
	warnings []string
}

// readOverride reads the body of a PUT strictly. The first error becomes the problem, with its field.
func readOverride(w http.ResponseWriter, r *http.Request, now time.Time) (in overrideInput, err error) {
	body, err := web.Body(w, r, "body is", maxBody, "send one override")
	if err != nil {
		return in, err
	}
	in.override, err = rules.ReadOverride("body", body, now, in.canonical)
	if wrong, ok := errors.AsType[*rules.Error](err); ok {
		return overrideInput{}, problemOf(wrong)
	}
	return in, err
}

// canonical writes the target in its one form, and warns of it.
func (in *overrideInput) canonical(o *rules.Override) error {
	t := o.Target()
	canonical, err := t.Canonical()
	switch {
	case strings.ContainsRune(t.Value, utf8.RuneError):
		return errors.New("it holds bytes that JSON cannot carry; put a * in their place")
	case t.Kind == rules.TargetKey && !o.IsPattern():
		canonical, err = rules.CanonicalKey(o.Key)
		o.Key = canonical
	case t.Kind == rules.TargetClient:
		o.Client = canonical
	case t.Kind == rules.TargetCIDR:
		o.CIDR = canonical
	}
	if err == nil && canonical != t.Value {
		in.warnings = append(in.warnings, "the "+t.Kind+"'s canonical form is "+canonical+"; it was stored so")
	}
	return err
}

var remedies = map[string]string{
	"key": `write resource?params as GET /v1/hot shows it ("topic?id=42"), or a pattern with * ("topic?id=*"); ` +
		"or give resource, client, cidr or class",
	"resource": "write the name of a rule, or a path that the catch-all counts",
	"client":   "write one address, or a network as cidr",
	"cidr":     "write a network such as 203.0.113.0/24",
	"class":    "write the name of a class",
	"action":   "use limit, exempt, block, shadow or cache",
	"rate":     `give requests per second, with action limit alone; to deny all use action "block"`,
	"burst":    "give how many requests may come at once, with action limit alone, or leave it out",
	"mode":     "use shadow, with action limit or block, or enforce, which is the default",
	"for":      `write a duration above 0: "10m", "2h30m"; or until`,
	"until":    `write a time to come: "2026-12-01T00:00:00Z"; or for: "10m"; without both the override has no end`,
	"schedule": `write {"from": "0 20 * * *", "for": "2h", "zone": "Europe/Berlin"} that begins before until`,
	"reason":   "keep it within 1024 bytes, in one line",
	"author":   "keep it within 256 bytes, in one line",
}

func problemOf(e *rules.Error) error {
	if e.Field == "" {
		return web.NewProblem(http.StatusBadRequest, "the body "+e.Message,
			`send {"key": "topic?id=42", "rate": 100, "for": "10m"}`)
	}
	detail := conf.Cut(e.Field) + ": " + e.Message
	switch first, _, _ := strings.Cut(e.Message, " "); first {
	case e.Field:
		detail = e.Message
	case "is", "has":
		detail = conf.Cut(e.Field) + " " + e.Message
	}
	field, _, _ := strings.Cut(e.Field, ".") // of a schedule the page has one line
	return web.BadField(field, detail, cmp.Or(remedies[field], "see /openapi.json for what an override holds"))
}

const (
	maxBody   = 64 << 10
	noRequest = ": no request will have this key"
)

// overrideWarnings says why an override may never meet a request, or may meet others than its author
// meant.
func overrideWarnings(set *rules.Set, o rules.Override) []string {
	switch {
	case o.Resource != "":
		return KeyWarnings(set, hottype.Key(o.Resource))
	case o.Class != "":
		return classWarnings(set, o)
	case o.OfClients():
		return nil
	case o.IsPattern():
		return patternWarnings(set, o.Key)
	}
	return KeyWarnings(set, hottype.Key(o.Key))
}

// patternWarnings are of a pattern for the keys of one resource.
func patternWarnings(set *rules.Set, pattern string) []string {
	resource, params, of := strings.Cut(pattern, "?")
	if !of || resource == "" || strings.Contains(resource, "*") {
		return nil
	}
	if list := KeyWarnings(set, hottype.Key(resource)); list != nil {
		return list
	}
	return untrackedWarnings(set.RuleFor(resource), params)
}

func untrackedWarnings(rule *rules.Rule, params string) []string {
	if text := rule.Untracked(params); text != "" {
		return []string{"rule " + rule.Name + " does not track the parameter " + text + noRequest}
	}
	return nil
}

func classWarnings(set *rules.Set, o rules.Override) []string {
	i := slices.IndexFunc(set.Classes, func(c *rules.Class) bool { return c.Name == o.Class })
	switch {
	case i < 0:
		return []string{"no class is named " + web.Quoted(o.Class) + ": no client is in it"}
	case set.Classes[i].Verify == "" && (o.Action == rules.ActionExempt || o.Action == rules.ActionShadow):
		return []string{"class " + o.Class + " has no verify: any client that sends its header passes the per-IP windows"}
	}
	return nil
}

func KeyWarnings(set *rules.Set, key hottype.Key) []string {
	rule := set.RuleFor(key.Resource())
	if rule == nil {
		return []string{"no rule counts under the resource " + web.Quoted(key.Resource()) + noRequest}
	}
	if rule.IsCatchAll() && !strings.HasPrefix(key.Resource(), "/") {
		return []string{"no rule is named " + web.Quoted(key.Resource()) + ", and a path begins with /" + noRequest}
	}
	if key.Params() == "" || key.Params() == canon.Malformed {
		return nil
	}
	if name, ok := rule.Repeated(key.Params()); ok {
		return []string{"rule " + rule.Name + " makes a key of one value of " + web.Quoted(name) + noRequest}
	}
	return untrackedWarnings(rule, key.Params())
}
