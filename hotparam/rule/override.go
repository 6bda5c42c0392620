package rule

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// ErrNoOverride reports that no override has the given ID.
var ErrNoOverride = errors.New("no such override")

// Action is the effect of an override.
type Action string

// The actions of an override.
const (
	ActionLimit  Action = "limit"  // this rate and burst instead of the rule's
	ActionExempt Action = "exempt" // never limited by key or address
	ActionBlock  Action = "block"  // always denied
	ActionShadow Action = "shadow" // limited as before, but only counted
	ActionCache  Action = "cache"  // limited as before, and answered from the cache, hot or not
)

// Override is an operator's exception for one key, for the keys that a pattern matches, for all keys of a resource, or
// for clients. An override with ActionLimit applies whether or not the key is hot.
type Override struct {
	// `[a-z0-9-]`, at most 64 bytes. Default: made from the key.
	ID string `json:"id" name:"id"`
	// A key in canonical form (`topic?id=42`, `/status`), or a glob over keys (`topic?id=4*`). Only a glob can name a
	// path that contains `*`. One of `key`, `resource`, `client`, `cidr`, `class` is required.
	Key string `json:"key,omitempty" name:"key"`
	// Every key of a resource, each by itself: the name of a rule, or a path that the catch-all counts.
	Resource string `json:"resource,omitempty" name:"resource"`
	// An address (`203.0.113.9`, or `2001:db8:0:7::` for its network).
	Client string `json:"client,omitempty" name:"client"`
	// The clients of a network, each by itself (`203.0.113.0/24`; IPv6 up to /64).
	CIDR string `json:"cidr,omitempty" name:"cidr"`
	// The clients of a class, each by itself.
	Class string `json:"class,omitempty" name:"class"`
	// `limit`: `rate` and `burst` replace the rule's. `exempt`: no limit. `block`: everything is denied, malformed
	// requests of the rule too. `shadow`: limits are evaluated and only counted. `cache`: limits apply as before, and
	// requests are answered from the cache (docs/cache.md), hot or not.
	Action Action `json:"action" name:"action" words:"limit,exempt,block,shadow,cache" default:"limit"`
	// With `limit`: requests per second, by a token bucket; of a rule with `cost` its unit per second, `500ms` or `0.5`.
	Rate float64 `json:"rate,omitempty" name:"rate" as:"any rate"`
	// With `limit`: requests that may come at once; of a rule with `cost` as in its `limit`. Default: `rate` in a second,
	// at least 1.
	Burst int64 `json:"burst,omitempty" name:"burst" as:"amount" in:"1..9007199254740991"`
	// With `limit` and `block`: `shadow` denies nothing, hides no other override, and counts would-be denials
	// (docs/admin.md). Default: `enforce`.
	Mode hottype.Mode `json:"mode,omitempty" name:"mode" words:"enforce,shadow"`
	// The end of the override (RFC 3339). Default: never.
	Until time.Time `json:"until,omitzero" name:"until"`
	// The override applies only in windows. `from`: their start, in the five fields of cron (minute, hour, day, month,
	// weekday) or as `@daily` and the like; `for`: their length, 1 s to 31 days; `zone`: the time zone of `from`.
	// Default: always; `zone`: UTC.
	Schedule Schedule `json:"schedule,omitzero" name:"schedule"`
	// Shown to operators; at most 1024 bytes.
	Reason string `json:"reason,omitempty" name:"reason"`
	// Shown to operators; at most 256 bytes.
	Author string `json:"author,omitempty" name:"author"`
	// Created is set by the store.
	Created time.Time `json:"created,omitzero"`
}

// Schedule holds the windows of an override: they begin at each time that From selects and last for For. An override
// with the zero Schedule always applies. Schedule is comparable.
type Schedule struct {
	// From selects the times at which windows begin, in the five fields of cron ("0 20 * * 1-5": minute, hour, day of
	// the month, month, day of the week) or as one of @hourly, @daily, @weekly, @monthly, @yearly.
	From string `name:"from" required:"true"`
	// For is the length of each window, in whole seconds of elapsed time, also on a day when clocks change.
	For time.Duration `name:"for" in:"1s..744h" step:"1s" required:"true"`
	// Zone is the time zone of From, such as Europe/Berlin; "" is UTC. A local
	// time that is skipped on a day begins no window; one that occurs twice
	// begins two, which join.
	Zone string `name:"zone"`
}

func (s Schedule) IsZero() bool { return s == Schedule{} }

// String returns the schedule for people: "0 20 * * * for 2h (Europe/Berlin)".
func (s Schedule) String() string {
	if s.IsZero() {
		return "always"
	}
	return fmt.Sprintf("%s for %s (%s)", s.From, shortDuration(s.For), cmp.Or(s.Zone, "UTC"))
}

// shortDuration formats a duration without zero units: 2h for 2h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

type scheduleJSON struct {
	From string `json:"from"`
	For  string `json:"for"`
	Zone string `json:"zone,omitempty"`
}

// MarshalJSON encodes the schedule as {"from":"0 20 * * *","for":"2h","zone":"Europe/Berlin"}.
func (s Schedule) MarshalJSON() ([]byte, error) {
	return json.Marshal(scheduleJSON{From: s.From, For: shortDuration(s.For), Zone: s.Zone})
}

// UnmarshalJSON decodes the output of MarshalJSON. It checks only the form; the values are checked with the override.
func (s *Schedule) UnmarshalJSON(data []byte) error {
	var j scheduleJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	d, err := time.ParseDuration(j.For)
	if err != nil {
		return fmt.Errorf("rule: schedule lasts for %.40q; write a duration such as 2h", j.For)
	}
	*s = Schedule{From: j.From, For: d, Zone: j.Zone}
	return nil
}
