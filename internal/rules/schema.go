package rules

import (
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/conf"
)

var (
	resourceName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	plainName    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	headerName   = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,64}$`)
)

// aResource is the form of the name of a rule, as messages ask for it.
const aResource = "up to 64 of a-z, 0-9 and _, a letter first, such as topic"

// schema holds the formats and checks that the tags of the rules cannot express.
var schema = newSchema()

func newSchema() *conf.Schema {
	s := &conf.Schema{
		Forms: map[string]conf.Form{
			"resource": {Pattern: resourceName, Want: aResource},
			"plain":    {Pattern: plainName, Want: "up to 64 of a-z, 0-9, _ and -, a letter first, such as front-page"},
			"method": {Pattern: regexp.MustCompile(`^[A-Z][A-Z0-9_-]{0,31}$`),
				Want: "up to 32 capital letters, digits, _ and -, a letter first, such as GET"},
			"host": {Pattern: regexp.MustCompile(`^([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])$`),
				Want: "a host without a port, such as www.example.org or [2001:db8::1]"},
			"header": {Pattern: headerName, Want: "up to 64 characters of the name of a header, such as Accept-Language"},
			// The domain has to be below a top-level one, because "com" would verify almost any client.
			"domain": {Pattern: regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$`),
				Want: "a domain in small letters with at least one dot, such as googlebot.com"},
		},
		Words: map[string][]string{
			"algorithm": algorithmNames(),
		},
		Texts: map[string]conf.Text{
			"rate":      {What: aRate, Parse: parsePerSecond, Check: checkPerSecond},
			"cost rate": {What: aRate, Parse: parseCostRate, Check: checkCostRate},
			"any rate":  {What: aRate, Parse: parseAnyRate},
			"amount":    {What: "a whole number, a time such as 1s or a size such as 10MB", Parse: parseAmount},
			"bytes": {What: "a number of bytes such as 65536, 64KiB or 1MiB",
				Unit: "bytes, such as 65536, 64KiB or 1MiB", Parse: parseBytes},
		},
	}
	conf.Add(s, conf.Of[rule.Rate]{Read: readRate, Check: validateRate})
	conf.Add(s, conf.Of[hottype.StatusRange]{Read: readStatus, Check: checkStatus})
	conf.Add(s, conf.Of[rule.Redactions]{Read: readRedactions, Check: checkRedactions})
	conf.Add(s, conf.Of[time.Time]{Read: readTime})
	conf.Add(s, conf.Of[rule.Param]{Short: func(v conf.Value, q *rule.Param) { readName(v, "name", &q.Name) }})
	conf.Add(s, conf.Of[rule.ParseAs]{Short: func(v conf.Value, p *rule.ParseAs) { readName(v, "", &p.Preset) }})
	conf.Add(s, conf.Of[rule.Target]{Short: func(v conf.Value, _ *rule.Target) { v.Word("auto") }})
	conf.Add(s, conf.Of[rule.InFlight]{Unknown: otherLimitField})
	conf.Add(s, conf.Of[hottype.CachePolicy]{Check: checkCache})
	conf.Add(s, conf.Of[rule.Override]{Check: func(v conf.Value, o *rule.Override) {
		checkOverride(v, (*Override)(o))
	}})
	conf.Add(s, conf.Of[OverrideText]{Check: checkOverrideText})
	conf.Add(s, conf.Of[Schedule]{Check: func(v conf.Value, s *Schedule) {
		v.Validate(func() error { return ValidateSchedule(*s) })
	}})
	return s
}

const aRate = "a rate such as 100, 0.5 or 30/m"

func parsePerSecond(text string) (any, error) {
	r, err := rule.ParseRate(text)
	return r.PerSecond(), err
}

func parseCostRate(text string) (any, error) {
	perSecond, err := rule.ParseCostRate(text)
	return perSecond, err
}

// parseAnyRate reads a rate as parsePerSecond does, and also a rate that is not a whole number per time, such as a
// third, as a program writes it.
func parseAnyRate(text string) (any, error) {
	perSecond, err := rule.ParseCostRate(text)
	if f, no := strconv.ParseFloat(text, 64); err != nil && no == nil && f > 0 && f <= rule.MaxRate {
		return f, nil
	}
	return perSecond, err
}

func parseAmount(text string) (any, error) { return rule.ParseAmount(text) }

func checkPerSecond(perSecond float64) error {
	_, err := rule.ParseRate(strconv.FormatFloat(perSecond, 'f', -1, 64))
	return err
}

// checkCostRate also allows rates of bytes, which are beyond those of requests.
func checkCostRate(perSecond float64) error {
	if perSecond > rule.MaxRate {
		return rule.CheckCostRate(perSecond)
	}
	return checkPerSecond(perSecond)
}

func readRate(v conf.Value, r *rule.Rate) {
	text, ok := v.Scalar(aRate, "!!int", "!!float", "!!str")
	if !ok {
		return
	}
	var err error
	if *r, err = parseRate(text); err != nil {
		v.Fail("%s", err)
	}
}

// parseRate reads a rate of requests or of a cost.
func parseRate(text string) (rule.Rate, error) {
	if rule.UnitOf(text) == hottype.CostRequests {
		return rule.ParseRate(text)
	}
	perSecond, err := rule.ParseCostRate(text)
	if err != nil {
		return rule.Rate{}, err
	}
	r, ok := rule.ExactRate(perSecond)
	if !ok {
		return r, fmt.Errorf("%q is not a whole number of seconds or bytes in any time; write a rounder rate", conf.Cut(text))
	}
	return r, nil
}

func validateRate(v conf.Value, r *rule.Rate) {
	if v.InGo() {
		v.Validate(r.Validate)
	}
}

// readName reads a struct that is written as its name alone.
func readName(v conf.Value, field string, name *string) {
	var ok bool
	if *name, ok = v.Text(); ok && field != "" {
		v.MarkSet(field)
	}
}

func readTime(v conf.Value, to *time.Time) {
	text, ok := v.Scalar("a time such as 2026-12-01T00:00:00Z", "!!timestamp", "!!str")
	t, err := time.Parse(time.RFC3339, text)
	if ok && err != nil {
		v.Fail("%q is not a time such as 2026-12-01T00:00:00Z", conf.Cut(text))
	}
	*to = t.UTC()
}

// readStatus reads a status whose responses refund the charge: 304, "4xx".
func readStatus(v conf.Value, r *hottype.StatusRange) {
	text, ok := v.Scalar("a status such as 304 or 5xx", "!!int", "!!str")
	class, isClass := strings.CutSuffix(strings.ToLower(text), "xx")
	n, err := strconv.Atoi(class)
	switch {
	case !ok:
	case err == nil && isClass && len(class) == 1 && n >= 2 && n <= 5:
		*r = hottype.StatusRange{From: 100 * n, To: 100*n + 99}
	case err == nil && !isClass && len(class) == 3 && n >= 200 && n <= 599:
		*r = hottype.StatusRange{From: n, To: n}
	default:
		v.Fail("%q is not a status of a response: it must be 200 to 599, or 2xx to 5xx", conf.Cut(strings.ToLower(text)))
	}
}

func checkStatus(v conf.Value, r *hottype.StatusRange) {
	if v.InGo() && (r.From < 200 || r.To > 599 || r.From > r.To) {
		v.Fail("\"%d-%d\" is not a status of a response: it must be 200 to 599, or 2xx to 5xx", r.From, r.To)
	}
}

var redactWords = []string{"hash", "mask", "drop"}

func readRedactions(v conf.Value, all *rule.Redactions) {
	names, values, ok := v.Mapping()
	if !ok {
		v.Fail("must be a mapping of names of parameters to hash, mask or drop, not %s", v.Kind())
	}
	for i, name := range names {
		*all = append(*all, rule.Redaction{Name: name, Redact: values[i].Word(redactWords...)})
	}
}

func checkRedactions(v conf.Value, all *rule.Redactions) {
	for i, r := range *all {
		if v.InGo() && !slices.Contains(redactWords, r.Redact) {
			v.Entry(i).Fail("%q is not one of %s", r.Redact, strings.Join(redactWords, ", "))
		}
	}
}

// parseBytes returns -1, which is outside all bounds, for a text that is not a number of bytes.
func parseBytes(s string) (any, error) {
	unit := int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB"} {
		if number, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = strings.TrimSpace(number), 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > (1<<63-1)/unit {
		return int64(-1), nil //nolint:nilerr // the bounds of the field reject -1 with their own message
	}
	return n * unit, nil
}

// private are header fields that identify a client, so that responses to them are for that client only.
var private = []string{"Authorization", "Cookie"}

// checkCache brings the names of headers into canonical form.
func checkCache(v conf.Value, s *hottype.CachePolicy) {
	var names []string
	for i, name := range s.Vary {
		at := v.At("vary").Entry(i)
		switch name = textproto.CanonicalMIMEHeaderKey(name); {
		case name == "*":
			at.Fail(`"*" is not a field: a response that varies by everything is never stored`)
		case slices.Contains(private, name):
			at.Fail("answers that differ by %s are private and never kept", name)
		case slices.Contains(names, name):
			at.Fail("%s is set twice", name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	s.Vary = names
}

func DefaultCache() *hottype.CachePolicy { return conf.Default[hottype.CachePolicy](schema) }

func defaultCriteria() HotCriteria { return HotCriteria(*conf.Default[rule.Hot](schema)) }
