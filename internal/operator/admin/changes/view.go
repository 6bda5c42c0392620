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
	SourceLive = "live" // in the store: can be changed here
	SourceFile = "file" // in the rules file
)

type View struct {
	rules.Override
	Source string `json:"source"`
	// Version is the version of a live override, which is its ETag without the quotes. Each change makes a higher
	// version.
	Version int64 `json:"version,omitempty"`
	// Active is true if the override is in force now. For an override with a schedule, Next is the time at which it
	// will be in force next, or until which it is in force.
	Active bool      `json:"active"`
	Next   time.Time `json:"next,omitzero"`
	// Hits is the number of decisions in which the override took part, in the limiters that report, since they have it.
	// It is nil in events, and while no limiter has reported twice.
	Hits          *uint64  `json:"hits,omitempty"`
	HitsPerSecond *float64 `json:"hits_per_second,omitempty"`
	// WouldDeny is the number of Hits that an override in shadow mode would have denied.
	WouldDeny          *uint64  `json:"would_deny,omitempty"`
	WouldDenyPerSecond *float64 `json:"would_deny_per_second,omitempty"`
	// Warnings describe effects that the author may not have intended.
	Warnings []string `json:"warnings,omitempty"`
}

func Viewed(o rules.Override, source string, now time.Time) View {
	v := View{Override: withID(o), Source: source, Version: o.Version(), Active: !o.Expired(now)}
	if o.Schedule.IsZero() {
		return v
	}
	w := o.Window(now)
	if v.Active = w.HoldsAt(now); v.Active {
		v.Next = w.Until
	} else {
		v.Next = w.From
	}
	return v
}

// contains reports whether the target, the ID, the reason or the author of an override contains a text, which is in
// lower case. Every override contains "".
func (v *View) contains(text string) bool {
	for _, field := range []string{v.Target().Value, v.ID, v.Reason, v.Author} {
		if strings.Contains(strings.ToLower(field), text) {
			return true
		}
	}
	return false
}

// withID sets the ID of an override of the rules file from its key.
func withID(o rules.Override) rules.Override {
	o.ID = cmp.Or(o.ID, o.DefaultID())
	return o
}

// overrideInput is the canonical form of an override that a person wrote.
type overrideInput struct {
	override rules.Override
	warnings []string
}

// readOverride reads the body of a PUT strictly. It returns the first error as a problem with its field.
func readOverride(w http.ResponseWriter, r *http.Request, now time.Time) (in overrideInput, err error) {
	body, err := web.Body(w, r, "body is", maxBody, "send one override")
	if err != nil {
		return in, err
	}
	in.override, err = rules.ReadOverride("body", body, now, in.canonicalizeTarget)
	if wrong, ok := errors.AsType[*rules.Error](err); ok {
		return overrideInput{}, problemOf(wrong)
	}
	return in, err
}

// canonicalizeTarget converts the target to its canonical form, and warns of a difference.
func (in *overrideInput) canonicalizeTarget(o *rules.Override) error {
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
	field, _, _ := strings.Cut(e.Field, ".") // the page has one line for a schedule
	return web.BadField(field, detail, cmp.Or(remedies[field], "see /openapi.json for the fields of an override"))
}

const (
	maxBody   = 64 << 10
	noRequest = ": no request will have this key"
)

// overrideWarnings returns the reasons why an override may never match a request, or may match other requests than its
// author intended.
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

// patternWarnings returns the warnings about a pattern for the keys of one resource.
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
