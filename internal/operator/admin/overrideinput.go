package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hotparam/pipeline/internal/rules"
)

// maxBody bounds what a change may send.
const maxBody = 64 << 10

// overrideInput is an override as somebody wrote it, made canonical.
type overrideInput struct {
	override rules.Override
	warnings []string
}

// fields of the body, in the order in which errors are looked for.
type overrideFields struct {
	key, action, reason, author, until, lasts string
	schedule                                  rules.Schedule
	rate                                      float64
	burst                                     int64
	given                                     map[string]bool
}

// readOverride reads the body of a PUT strictly: a field that is unknown, twice
// there or of the wrong kind is an error that names it.
func readOverride(w http.ResponseWriter, r *http.Request, now time.Time) (overrideInput, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return overrideInput{}, newProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is over %d bytes", maxBody), "send one override")
		}
		return overrideInput{}, newProblem(http.StatusBadRequest, "the body cannot be read: "+err.Error(), "send it again")
	}
	f := overrideFields{given: map[string]bool{}}
	if err := f.decode(body); err != nil {
		return overrideInput{}, err
	}
	return f.override(now)
}

// decode walks the object itself, because encoding/json tells neither doubled
// fields nor, except as text, unknown ones.
func (f *overrideFields) decode(body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return newProblem(http.StatusBadRequest, "the body is not a JSON object", `send {"key": "topic?id=42", "rate": 100, "for": "10m"}`)
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return badJSON(err)
		}
		name, _ := t.(string) // the decoder allows nothing else here
		if err := f.decodeField(dec, name); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return badJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return newProblem(http.StatusBadRequest, "something follows the JSON object", "send one override")
	}
	return nil
}

func (f *overrideFields) decodeField(dec *json.Decoder, name string) error {
	into := map[string]any{"key": &f.key, "action": &f.action, "rate": &f.rate, "burst": &f.burst,
		"until": &f.until, "for": &f.lasts, "schedule": &f.schedule, "reason": &f.reason, "author": &f.author}[name]
	if into == nil {
		return badField(name, "unknown field "+quoted(name), "known are key, action, rate, burst, until, for, schedule, reason, author")
	}
	if f.given[name] {
		return badField(name, "field "+quoted(name)+" stands twice", "leave one of them")
	}
	f.given[name] = true
	err := dec.Decode(into)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return badField(name, name+" is a JSON "+kind.Value, "give a "+kindOf(into))
	}
	if err != nil && name == "schedule" && dec.InputOffset() > 0 && !isSyntax(err) {
		return badField(name, strings.TrimPrefix(err.Error(), "rules: "), scheduleShape)
	}
	if err != nil {
		return badJSON(err)
	}
	return nil
}

// isSyntax tells what is not JSON from what is not a schedule.
func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

const scheduleShape = `write {"from": "0 20 * * *", "for": "2h", "zone": "Europe/Berlin"}`

func kindOf(into any) string {
	switch into.(type) {
	case *float64:
		return "number"
	case *int64:
		return "whole number"
	case *rules.Schedule:
		return `object such as {"from": "0 20 * * *", "for": "2h"}`
	}
	return "string"
}

func badJSON(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = errors.New("it ends too early")
	}
	return newProblem(http.StatusBadRequest, "the body is not JSON: "+err.Error(), "mend it there")
}

// override checks field by field, so that each error names one.
func (f *overrideFields) override(now time.Time) (overrideInput, error) {
	in := overrideInput{override: rules.Override{Key: f.key, Action: rules.Action(f.action), Rate: f.rate, Burst: f.burst,
		Reason: f.reason, Author: f.author, Schedule: f.schedule}}
	if f.action == "" {
		in.override.Action = rules.ActionLimit
	}
	for _, check := range []func(*overrideInput, time.Time) error{f.checkKey, f.checkAction, f.checkEnd, f.checkSchedule, f.checkTexts} {
		if err := check(&in, now); err != nil {
			return overrideInput{}, err
		}
	}
	return in, nil
}

func (f *overrideFields) checkKey(in *overrideInput, _ time.Time) error {
	const shape = `write resource?params as GET /v1/hot shows it ("topic?id=42"), or a pattern with * ("topic?id=*")`
	switch {
	case f.key == "":
		return badField("key", "key is missing", shape)
	case strings.ContainsRune(f.key, utf8.RuneError):
		return badField("key", "key holds bytes that JSON cannot carry", "put a * in their place")
	}
	if in.override.IsPattern() {
		return nil
	}
	canonical, err := canonicalKey(f.key)
	if err != nil {
		return badField("key", err.Error(), shape)
	}
	if canonical != f.key {
		in.warnings = append(in.warnings, "the key's canonical form is "+canonical+"; it was stored so")
	}
	in.override.Key = canonical
	return nil
}

func (f *overrideFields) checkAction(in *overrideInput, _ time.Time) error {
	switch in.override.Action {
	case rules.ActionLimit:
		if !f.given["rate"] {
			return badField("rate", "rate is missing", "give requests per second, or another action: exempt, block, shadow, serve")
		}
		if !(f.rate > 0) || math.IsInf(f.rate, 0) {
			return badField("rate", fmt.Sprintf("rate %v is not above 0", f.rate), `give requests per second; to deny all use action "block"`)
		}
		if f.burst < 0 || f.given["burst"] && f.burst == 0 {
			return badField("burst", fmt.Sprintf("burst %d is not above 0", f.burst), "give how many requests may come at once, or leave it out")
		}
		return nil
	case rules.ActionExempt, rules.ActionBlock, rules.ActionShadow, rules.ActionServe:
		for _, name := range []string{"rate", "burst"} {
			if f.given[name] {
				return badField(name, name+" has no meaning with action "+quoted(f.action), `leave it out, or use action "limit"`)
			}
		}
		return nil
	}
	return badField("action", "action is "+quoted(f.action), "use limit, exempt, block, shadow or serve")
}

func (f *overrideFields) checkEnd(in *overrideInput, now time.Time) error {
	switch {
	case f.given["until"] && f.given["for"]:
		return badField("for", "until and for are both there", "leave one of them")
	case f.given["for"]:
		d, err := time.ParseDuration(f.lasts)
		if err != nil || d <= 0 {
			return badField("for", "for is "+quoted(f.lasts), `write a duration above 0: "10m", "2h30m"`)
		}
		in.override.Until = now.Add(d).UTC().Truncate(time.Millisecond)
	case f.given["until"]:
		t, err := time.Parse(time.RFC3339, f.until)
		if err != nil {
			return badField("until", "until is "+quoted(f.until), `write "2026-12-01T00:00:00Z", or for: "10m"`)
		}
		if !t.After(now) {
			return badField("until", "until "+f.until+" has passed", "give a time to come, or leave it out for an override without end")
		}
		in.override.Until = t.UTC()
	}
	return nil
}

func (f *overrideFields) checkSchedule(in *overrideInput, now time.Time) error {
	o := in.override
	switch err := o.Schedule.Validate(); {
	case err != nil:
		return badField("schedule", strings.TrimPrefix(err.Error(), "rules: "), scheduleShape)
	case f.given["schedule"] && o.Schedule.IsZero():
		return badField("schedule", "schedule is empty", scheduleShape+", or leave it out")
	case !o.Schedule.IsZero() && o.Window(now) == rules.Window{}:
		return badField("schedule", "no window of schedule "+o.Schedule.String()+" begins before the override ends",
			"let it end later, or leave until and for out")
	}
	return nil
}

// The longest reason and author that are kept, in bytes.
const (
	maxReason = 500
	maxAuthor = 100
)

func (f *overrideFields) checkTexts(*overrideInput, time.Time) error {
	if len(f.reason) > maxReason {
		return badField("reason", fmt.Sprintf("reason has %d bytes", len(f.reason)), fmt.Sprintf("keep it within %d", maxReason))
	}
	if len(f.author) > maxAuthor {
		return badField("author", fmt.Sprintf("author has %d bytes", len(f.author)), fmt.Sprintf("keep it within %d", maxAuthor))
	}
	return nil
}
