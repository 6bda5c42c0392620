package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
)

// Action is the effect of an override.
type Action = rule.Action

// The actions of an override.
const (
	ActionLimit  = rule.ActionLimit
	ActionExempt = rule.ActionExempt
	ActionBlock  = rule.ActionBlock
	ActionShadow = rule.ActionShadow
	ActionCache  = rule.ActionCache
)

// Override is a rule.Override with methods for the programs.
type Override rule.Override

// Bounds of an override, in bytes.
const (
	maxKeyBytes    = 4096
	maxReasonBytes = 1024
	maxAuthorBytes = 256
)

// Canonical returns the override with its target as requests are counted, and redacted as set redacts requests.
func (o Override) Canonical(set *Set) (Override, error) {
	t := o.Target()
	value, err := t.Canonical()
	switch {
	case t.Kind == TargetKey && !o.IsPattern():
		if o.Key, err = CanonicalKey(o.Key); err == nil {
			o.Key, err = set.RedactKey(o.Key)
		}
	case t.Kind == TargetKey:
		o.Key, err = set.RedactKey(o.Key)
	case t.Kind == TargetClient:
		o.Client = value
	case t.Kind == TargetCIDR:
		o.CIDR = value
	}
	return o, err
}

// CanonicalKey writes a key that a person wrote as requests are counted: pairs sorted and escaped in one way. The
// resource stays unchanged.
func CanonicalKey(key string) (string, error) {
	resource, params, hasParams := strings.Cut(key, "?")
	if resource == "" {
		return "", fmt.Errorf("key %q has no resource before its ?", conf.Cut(key))
	}
	if !hasParams || params == canon.Malformed {
		return key, nil
	}
	selector := canon.NewSelector(canon.Selection{All: true})
	lim := canon.DefaultQueryBounds()
	out, n := selector.Append([]byte(resource), params, nil, &lim, new(canon.Scratch))
	if n == 0 {
		return "", fmt.Errorf("key %q is beyond the limits of a query: %d pairs, names of %d and values of %d bytes",
			conf.Cut(key), lim.Pairs, lim.NameBytes, lim.ValueBytes)
	}
	return string(out), nil
}

// Validate reports why an override is unusable. The ID may be empty.
func (o Override) Validate() error {
	if err := o.validateTarget(); err != nil {
		return err
	}
	switch {
	case o.ID != "" && !isID(o.ID):
		return fieldError("id", "override id %.80q cannot be used; write up to 64 of a-z, 0-9 and -", o.ID)
	case len(o.Reason) > maxReasonBytes || hasControl(o.Reason):
		return fieldError("reason", "reason of override %.80q is longer than %d bytes or has control characters",
			o.Target(), maxReasonBytes)
	case len(o.Author) > maxAuthorBytes || hasControl(o.Author):
		return fieldError("author", "author of override %.80q is longer than %d bytes or has control characters",
			o.Target(), maxAuthorBytes)
	case !o.Until.IsZero() && !o.Created.IsZero() && !o.Until.After(o.Created):
		return fieldError("until", "override %.80q ends at %s, not after it was made at %s",
			o.Target(), o.Until.Format(time.RFC3339), o.Created.Format(time.RFC3339))
	}
	if err := ValidateSchedule(o.Schedule); err != nil {
		return &conf.FieldError{Field: "schedule", Err: err}
	}
	return o.validateAction()
}

func fieldError(field, format string, args ...any) error {
	return &conf.FieldError{Field: field, Err: fmt.Errorf("rules: "+format, args...)}
}

func (o Override) validateKey() error {
	switch {
	case len(o.Key) > maxKeyBytes:
		return fieldError("key", "key %.40q… of override has %d bytes, more than %d", o.Key, len(o.Key), maxKeyBytes)
	case hasControl(o.Key):
		return fieldError("key", "key %.200q of override is not UTF-8 or has control characters; write them %%XX", o.Key)
	case o.IsPattern():
		return nil
	}
	if err := canon.Check(hottype.Key(o.Key)); err != nil {
		return fieldError("key", "override: %w", err)
	}
	return nil
}

func (o Override) validateAction() error {
	fail := func(field, format string, args ...any) error {
		return fieldError(field, "override %.80q"+format, append([]any{o.Target()}, args...)...)
	}
	switch {
	case o.Mode != "" && o.Mode != hottype.ModeShadow:
		return fail("mode", " has mode %.40q, not shadow; leave it out to enforce it", o.Mode)
	case o.InShadow() && o.Action != ActionLimit && o.Action != ActionBlock:
		return fail("mode", " has mode shadow, which is for limit and block, not for action %.40q", o.Action)
	}
	switch o.Action {
	case ActionCache:
		if o.OfClients() {
			return fail("action", " has action %q, which is for a key, a pattern or a resource",
				o.Action)
		}
	case ActionLimit:
		if !(o.Rate > 0 && o.Rate <= rule.MaxRate) {
			return fail("rate",
				" limits to a rate of %v, which is not between 0 and %.0f a second; block the key with action %q",
				o.Rate, rule.MaxRate, ActionBlock)
		}
		if o.Burst < 0 {
			return fail("burst", " has a burst of %d, below 0", o.Burst)
		}
		if err := o.Spec("").Validate(); err != nil {
			return fail("rate", ": rate %v: %w", o.Rate, err)
		}
		return nil
	case ActionExempt, ActionBlock, ActionShadow:
	default:
		return fail("action", " has action %.40q, not limit, exempt, block, shadow or cache", o.Action)
	}
	const unused = " has a rate or a burst, which action %q does not use"
	if o.Rate != 0 {
		return fail("rate", unused, o.Action)
	}
	if o.Burst != 0 {
		return fail("burst", unused, o.Action)
	}
	return nil
}

// hasControl reports whether a text has control characters or is not UTF-8, so that it does not fit in one line of a
// log.
func hasControl(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Spec returns the limit of an override with ActionLimit for keys of a rule with a cost, or the zero Spec for other
// actions. A rate that whole numbers cannot express exactly is rounded to a millionth, or is 1 per 1/Rate seconds if it
// is less than that.
func (o Override) Spec(cost hottype.Cost) limit.Spec {
	if o.Action != ActionLimit || !(o.Rate > 0) {
		return limit.Spec{}
	}
	r, ok := rule.ExactRate(o.Rate)
	if !ok {
		r = rule.Rate{N: 1, Per: time.Duration(math.Round(math.Min(1e15, 1e6/o.Rate))) * time.Microsecond}
		if n := math.Round(o.Rate * 1e6); n >= 1 {
			r = rule.Rate{N: int64(math.Min(n, 1<<53)), Per: 1e6 * time.Second}
		}
	}
	if !cost.IsRequests() {
		return costSpec(cost, r, o.Burst)
	}
	s := limit.Spec{Algorithm: limit.TokenBucket, Limit: r.N, Window: r.Per, Burst: o.Burst}
	if s.Burst == 0 {
		s.Burst = defaultBurst(r)
	}
	return s
}

// KeepsLimit reports whether the rule's limit of a key still applies under the override: an override with ActionShadow
// or ActionCache does not replace the limit.
func (o Override) KeepsLimit() bool { return o.Action == ActionShadow || o.Action == ActionCache }

func (o Override) InShadow() bool { return o.Mode == hottype.ModeShadow }

// Replaces reports whether two overrides replace each other: they have the same target, schedule and mode.
func (o Override) Replaces(p Override) bool {
	return o.Target() == p.Target() && o.Schedule == p.Schedule && o.Mode == p.Mode
}

// IsPattern reports whether the key contains a "*" and so matches many keys.
func (o Override) IsPattern() bool { return strings.IndexByte(o.Key, '*') >= 0 }

func (o Override) IsOneKey() bool { return o.Key != "" && !o.IsPattern() }

func (o Override) Expired(now time.Time) bool { return !o.Until.IsZero() && !now.Before(o.Until) }

// Window returns the window in which the override holds at now, or the next one, cut at its end, or the zero Window if
// it never holds again. Without a schedule the window reaches from the creation to the end, which is the zero time if
// the override has no end.
func (o Override) Window(now time.Time) Window {
	if o.Expired(now) {
		return Window{}
	}
	if o.Schedule.IsZero() {
		return Window{From: o.Created, Until: o.Until}
	}
	w := scheduleWindow(o.Schedule, now)
	if o.Until.IsZero() || w.From.IsZero() {
		return w
	}
	if !w.From.Before(o.Until) {
		return Window{}
	}
	if w.Until.After(o.Until) {
		w.Until = o.Until
	}
	return w
}

// HoldsAt reports whether the override holds at now: it has not ended, and if it has a schedule, one of its windows
// holds. It compiles the schedule each time; a gate asks the entry of its index, which remembers the window.
func (o Override) HoldsAt(now time.Time) bool {
	return !o.Expired(now) && (o.Schedule.IsZero() || scheduleWindow(o.Schedule, now).HoldsAt(now))
}

// DefaultID returns the ID of an override without an ID. It is made from the target, the schedule and the mode, so that
// a key may have scheduled and shadow overrides beside the override that always holds.
func (o Override) DefaultID() string {
	text := o.Target().String()
	if !o.Schedule.IsZero() {
		text += " " + o.Schedule.String()
	}
	if o.InShadow() {
		return overrideID(text, text+" shadow") // it keeps this ID when it is enforced
	}
	return OverrideID(text)
}

// OverrideID returns the ID of an override for its key: readable, the same for the same key, and different for
// different keys ("topic-id-42-3f2a9c1d").
func OverrideID(key string) string { return overrideID(key, key) }

// overrideID makes an ID. Its readable part is made from key, and its hash from differs.
func overrideID(key, differs string) string {
	sum := sha256.Sum256([]byte(differs))
	id := make([]byte, 0, 64)
	for i := 0; i < len(key) && len(id) < 48; i++ {
		c := key[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if ('a' > c || c > 'z') && ('0' > c || c > '9') {
			if len(id) == 0 || id[len(id)-1] == '-' {
				continue
			}
			c = '-'
		}
		id = append(id, c)
	}
	if len(id) > 0 && id[len(id)-1] != '-' {
		id = append(id, '-')
	}
	return string(hex.AppendEncode(id, sum[:4]))
}

func isID(id string) bool {
	return len(id) > 0 && len(id) <= 64 && strings.Trim(id, "-0123456789abcdefghijklmnopqrstuvwxyz") == ""
}
