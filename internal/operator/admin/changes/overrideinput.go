package changes

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

	"github.com/hotparam/pipeline/hotparam/hottype"
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

// overrideFields reads the fields of the body, in the order in which errors are reported.
type overrideFields struct {
	override     rules.Override
	until, lasts string
	given        map[string]bool
}

// readOverride reads the body of a PUT strictly: a field that is unknown, twice
// there or of the wrong kind is an error that names it.
func readOverride(w http.ResponseWriter, r *http.Request, now time.Time) (overrideInput, error) {
	body, err := web.Body(w, r, "body is", maxBody, "send one override")
	if err != nil {
		return overrideInput{}, err
	}
	f := overrideFields{given: map[string]bool{}}
	if err := f.decode(body); err != nil {
		return overrideInput{}, err
	}
	return f.check(now)
}

// decode walks the object itself, because encoding/json tells neither doubled
// fields nor, except as text, unknown ones.
func (f *overrideFields) decode(body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return web.NewProblem(http.StatusBadRequest, "the body is not a JSON object",
			`send {"key": "topic?id=42", "rate": 100, "for": "10m"}`)
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
		return web.NewProblem(http.StatusBadRequest, "something follows the JSON object", "send one override")
	}
	return nil
}

func (f *overrideFields) decodeField(dec *json.Decoder, name string) error {
	o := &f.override
	into := map[string]any{
		"key": &o.Key, "resource": &o.Resource, "client": &o.Client, "cidr": &o.CIDR, "class": &o.Class,
		"action": &o.Action, "rate": &o.Rate, "burst": &o.Burst, "mode": &o.Mode, "until": &f.until, "for": &f.lasts,
		"schedule": &o.Schedule,
		"reason":   &o.Reason, "author": &o.Author,
	}[name]
	if into == nil {
		return web.BadField(name, "unknown field "+web.Quoted(name),
			"known are key, resource, client, cidr, class, action, rate, burst, mode, until, for, schedule, reason, "+
				"author")
	}
	if f.given[name] {
		return web.BadField(name, "field "+web.Quoted(name)+" is set twice", "leave one of them")
	}
	f.given[name] = true
	err := dec.Decode(into)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return web.BadField(name, name+" is a JSON "+kind.Value, "give a "+kindOf(into))
	}
	if err != nil && name == "schedule" && dec.InputOffset() > 0 && !isSyntax(err) {
		return web.BadField(name, strings.TrimPrefix(err.Error(), "rules: "), scheduleShape)
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
	return web.NewProblem(http.StatusBadRequest, "the body is not JSON: "+err.Error(), "fix the JSON")
}

// check checks field by field, so that each error names one.
func (f *overrideFields) check(now time.Time) (overrideInput, error) {
	in := overrideInput{override: f.override}
	if f.override.Action == "" {
		in.override.Action = rules.ActionLimit
	}
	for _, check := range []func(*overrideInput, time.Time) error{
		f.checkTarget, f.checkAction, f.checkMode, f.checkEnd, f.checkSchedule, f.checkTexts} {
		if err := check(&in, now); err != nil {
			return overrideInput{}, err
		}
	}
	return in, nil
}

const keyShape = `write resource?params as GET /v1/hot shows it ("topic?id=42"), or a pattern with * ("topic?id=*")`

// checkTarget sees that the override is about one thing, and writes that in its one form.
func (f *overrideFields) checkTarget(in *overrideInput, _ time.Time) error {
	o := &in.override
	t := o.Target()
	canonical, err := t.Canonical()
	switch {
	case t.Value == "":
		return web.BadField("key", "key is missing", keyShape+"; or give resource, client, cidr or class")
	case strings.ContainsRune(t.Value, utf8.RuneError):
		return web.BadField(t.Kind, t.Kind+" holds bytes that JSON cannot carry", "put a * in their place")
	case t.Kind == rules.TargetKey && !o.IsPattern():
		canonical, err = web.CanonicalKey(o.Key)
		o.Key = canonical
	case t.Kind == rules.TargetClient && err == nil:
		o.Client = canonical
	case t.Kind == rules.TargetCIDR && err == nil:
		o.CIDR = canonical
	}
	if err == nil {
		err = o.ValidateTarget()
	}
	if err != nil {
		return web.BadField(t.Kind, strings.TrimPrefix(err.Error(), "rules: "), shapeOf(t.Kind))
	}
	if canonical != t.Value {
		in.warnings = append(in.warnings, "the "+t.Kind+"'s canonical form is "+canonical+"; it was stored so")
	}
	return nil
}

// shapeOf says how a target is written.
func shapeOf(kind string) string {
	switch kind {
	case rules.TargetResource:
		return "write the name of a rule, or a path that the catch-all counts"
	case rules.TargetClient:
		return "write one address, or a network as cidr"
	case rules.TargetCIDR:
		return "write a network such as 203.0.113.0/24"
	case rules.TargetClass:
		return "write the name of a class"
	}
	return keyShape
}

func (f *overrideFields) checkAction(in *overrideInput, _ time.Time) error {
	switch in.override.Action {
	case rules.ActionLimit:
		if !f.given["rate"] {
			return web.BadField("rate", "rate is missing",
				"give requests per second, or another action: exempt, block, shadow, cache")
		}
		if !(f.override.Rate > 0) || math.IsInf(f.override.Rate, 0) {
			return web.BadField("rate", fmt.Sprintf("rate %v is not above 0", f.override.Rate),
				`give requests per second; to deny all use action "block"`)
		}
		if f.override.Burst < 0 || f.given["burst"] && f.override.Burst == 0 {
			return web.BadField("burst", fmt.Sprintf("burst %d is not above 0", f.override.Burst),
				"give how many requests may come at once, or leave it out")
		}
		return nil
	case rules.ActionExempt, rules.ActionBlock, rules.ActionShadow, rules.ActionCache:
		for _, name := range []string{"rate", "burst"} {
			if f.given[name] {
				return web.BadField(name, name+" has no meaning with action "+web.Quoted(string(f.override.Action)),
					`leave it out, or use action "limit"`)
			}
		}
		return nil
	}
	return web.BadField("action", "action is "+web.Quoted(string(f.override.Action)),
		"use limit, exempt, block, shadow or cache")
}

// checkMode sees that only what denies is tried. To enforce is what an override does without a mode.
func (f *overrideFields) checkMode(in *overrideInput, _ time.Time) error {
	o := &in.override
	switch {
	case f.given["mode"] && o.Mode != hottype.ModeShadow && o.Mode != hottype.ModeEnforce:
		return web.BadField("mode", "mode is "+web.Quoted(string(o.Mode)), "use shadow, or enforce, which is the default")
	case o.InShadow() && o.Action != rules.ActionLimit && o.Action != rules.ActionBlock:
		return web.BadField("mode", "mode shadow has no meaning with action "+web.Quoted(string(o.Action)),
			"leave it out, or use action limit or block")
	case o.Mode == hottype.ModeEnforce:
		o.Mode = ""
	}
	return nil
}

func (f *overrideFields) checkEnd(in *overrideInput, now time.Time) error {
	switch {
	case f.given["until"] && f.given["for"]:
		return web.BadField("for", "until and for are both there", "leave one of them")
	case f.given["for"]:
		d, err := time.ParseDuration(f.lasts)
		if err != nil || d <= 0 {
			return web.BadField("for", "for is "+web.Quoted(f.lasts), `write a duration above 0: "10m", "2h30m"`)
		}
		in.override.Until = now.Add(d).UTC().Truncate(time.Millisecond)
	case f.given["until"]:
		t, err := time.Parse(time.RFC3339, f.until)
		if err != nil {
			return web.BadField("until", "until is "+web.Quoted(f.until), `write "2026-12-01T00:00:00Z", or for: "10m"`)
		}
		if !t.After(now) {
			return web.BadField("until", "until "+f.until+" has passed",
				"give a time to come, or leave it out for an override without end")
		}
		in.override.Until = t.UTC()
	}
	return nil
}

func (f *overrideFields) checkSchedule(in *overrideInput, now time.Time) error {
	o := in.override
	switch err := o.Schedule.Validate(); {
	case err != nil:
		return web.BadField("schedule", strings.TrimPrefix(err.Error(), "rules: "), scheduleShape)
	case f.given["schedule"] && o.Schedule.IsZero():
		return web.BadField("schedule", "schedule is empty", scheduleShape+", or leave it out")
	case !o.Schedule.IsZero() && o.Window(now) == rules.Window{}:
		return web.BadField("schedule", "no window of schedule "+o.Schedule.String()+" begins before the override ends",
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
	if len(f.override.Reason) > maxReason {
		return web.BadField("reason", fmt.Sprintf("reason has %d bytes", len(f.override.Reason)),
			fmt.Sprintf("keep it within %d", maxReason))
	}
	if len(f.override.Author) > maxAuthor {
		return web.BadField("author", fmt.Sprintf("author has %d bytes", len(f.override.Author)),
			fmt.Sprintf("keep it within %d", maxAuthor))
	}
	return nil
}
