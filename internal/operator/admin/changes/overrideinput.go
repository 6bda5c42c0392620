package changes

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// maxBody bounds what a change may send.
const maxBody = 64 << 10

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
		canonical, err = web.CanonicalKey(o.Key)
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

// remedies are how the fields of an override are written.
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

// problemOf is the problem of an error of the reader.
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
