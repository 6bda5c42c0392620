package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

type Kind string

// The kinds of events. A webhook names the kinds that it receives.
const (
	Hot           Kind = "hot"            // a key became hot
	Cold          Kind = "cold"           // a hot key is cold again
	Loop          Kind = "loop"           // one or a few clients take a key over its threshold, or no longer do
	Override      Kind = "override"       // an override changed, or its schedule began or ended
	StoreFailure  Kind = "store_failure"  // the store of the limits fails, or works again
	AdaptiveFloor Kind = "adaptive_floor" // an adaptive limit is at its minimum, or above it again
	Test          Kind = "test"           // a test was requested; every webhook receives it
)

// Kinds are the kinds that a webhook may name.
var Kinds = []Kind{Hot, Cold, Loop, Override, StoreFailure, AdaptiveFloor}

type Event struct {
	// ID is the same for each delivery of an event, and in each process that sends it. Notify sets it.
	ID   string `json:"id"`
	Kind Kind   `json:"event"`
	// Ended is true if a loop, a failure or the time at the floor ended. Cold is always an end, of Hot.
	Ended bool      `json:"ended,omitempty"`
	At    time.Time `json:"at"`
	// Since is the time at which the ended state began, or zero if it is not known.
	Since time.Time `json:"since,omitzero"`
	// Key is the subject of the event: a key, or the target of an override ("client 192.0.2.1").
	Key  string `json:"key,omitempty"`
	Rule string `json:"rule,omitempty"`
	// Cost is the cost of the key's rule, or "" if each request counts for one.
	Cost hottype.Cost `json:"cost,omitempty"`
	// Rate is in units of the cost a second, or in requests a second.
	Rate float64 `json:"rate,omitempty"`
	// Clients is the number of clients of the key, Client is the heaviest of them, and ClientShare is its share of the
	// requests. They are zero if they are not known.
	Clients     int64   `json:"clients,omitempty"`
	Client      string  `json:"heaviest_client,omitempty"`
	ClientShare float64 `json:"client_share,omitempty"`
	// Author is the person who changed an override, and Change describes the change.
	Author string `json:"author,omitempty"`
	Change string `json:"change,omitempty"`
	// Upstream is the upstream of an adaptive limit.
	Upstream string `json:"upstream,omitempty"`
	// Why is the error of a store, or the reason of an override.
	Why string `json:"why,omitempty"`
	// Text is the event in one line for people. Notify sets it; characters that are not printable are code points.
	Text string `json:"text"`
}

func (e *Event) isBeginning() bool {
	switch e.Kind {
	case Hot, Loop, StoreFailure, AdaptiveFloor:
		return !e.Ended
	}
	return false
}

func (e *Event) isEnd() bool { return e.Kind == Cold || e.Ended }

// stateID returns the identity of a state that begins and ends: it is the same for an event and for its end.
func (e *Event) stateID() string {
	kind := e.Kind
	if kind == Cold {
		kind = Hot
	}
	return strings.Join([]string{string(kind), e.Key, e.Upstream}, "\x00")
}

// eventID returns the same ID in every process that sees the event. The ID of an end is made from the time of its
// beginning, if that is known, because processes see an end at different times.
func (e *Event) eventID(namespace string) string {
	at, end := e.At, ""
	if e.isEnd() && !e.Since.IsZero() {
		at, end = e.Since, "end"
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{
		namespace, e.stateID(), e.Author, e.Change, end, strconv.FormatInt(at.UnixMilli(), 10),
	}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

func (e *Event) formatText() string {
	of, rule, upstream := printableText(e.Key, maxShown), printableText(e.Rule, maxShown),
		printableText(e.Upstream, maxShown)
	switch {
	case e.Kind == Hot:
		return fmt.Sprintf("%s is hot: %s%s (rule %s)", of, e.formatRate(), e.formatClients(),
			rule)
	case e.Kind == Cold:
		return fmt.Sprintf("%s is cold again%s (rule %s)", of, e.formatDuration(), rule)
	case e.Kind == Loop && e.Ended:
		return fmt.Sprintf("the loop on %s has ended%s", of, e.formatDuration())
	case e.Kind == Loop:
		return fmt.Sprintf("a loop on %s: %s%s; only its clients are limited",
			of, e.formatRate(), e.formatClients())
	case e.Kind == Override:
		return fmt.Sprintf("override of %s %s%s%s",
			of, printableText(e.Change, maxShown), withPrefix(" by ", e.Author), withPrefix(": ", e.Why))
	case e.Kind == StoreFailure && e.Ended:
		return "the store of the limits is back" + e.formatDuration()
	case e.Kind == StoreFailure:
		return "the store of the limits fails: " + printableText(e.Why, maxShown)
	case e.Kind == AdaptiveFloor && e.Ended:
		return fmt.Sprintf("the adaptive limit of upstream %s is above its minimum again%s", upstream,
			e.formatDuration())
	case e.Kind == AdaptiveFloor:
		return fmt.Sprintf("the adaptive limit of upstream %s is at its minimum, %s%s",
			upstream, e.formatRate(), withPrefix(": ", e.Why))
	}
	return "a test: this webhook works" + withPrefix("; asked for by ", e.Author)
}

func (e *Event) formatClients() string {
	switch {
	case e.Client != "":
		return fmt.Sprintf(" by %d clients, %.0f %% of them by %s", e.Clients, 100*e.ClientShare,
			printableText(e.Client, maxShown))
	case e.Clients > 0:
		return fmt.Sprintf(" by %d clients", e.Clients)
	}
	return ""
}

func (e *Event) formatDuration() string {
	if e.Since.IsZero() {
		return ""
	}
	return " after " + e.At.Sub(e.Since).Round(time.Second).String()
}

func withPrefix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + printableText(text, maxShown)
}

func (e *Event) formatRate() string {
	if e.Cost.IsRequests() {
		return strconv.FormatFloat(e.Rate, 'f', 1, 64) + " requests a second"
	}
	return printableText(e.Cost.FormatRate(e.Rate), maxShown)
}

// maxShown bounds a value in a line for people, in bytes.
const maxShown = 200

// printableText returns untrusted text in a form that is fit for display: characters that are not printable, or change
// the direction of text, become code points, and the result is cut after about most bytes.
func printableText(s string, most int) string {
	var b strings.Builder
	for i, r := range s {
		if b.Len() >= most {
			b.WriteString("…")
			break
		}
		switch _, size := utf8.DecodeRuneInString(s[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "[0x%02X]", s[i])
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, "[U+%04X]", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// settle is how long a state must last before it is reported, so that a flapping state is reported once.
const settle = 5 * time.Second

// maxConditions bounds the states that are tracked at once.
const maxConditions = 1000

// Conditions turns polled states into events: a store that fails, a limit at its floor. The zero value is ready.
// Conditions is not for concurrent use.
type Conditions struct {
	states map[string]*condition
}

type condition struct {
	event    Event // of the beginning
	notified bool
	changed  time.Time // time since which it differs from the last notification, if differs
	differs  bool
}

// Update takes the states that hold at now, each as the event of its beginning, and returns the events to send:
// beginnings and ends that have lasted five seconds.
func (c *Conditions) Update(now time.Time, hold []Event) (tell []Event) {
	if c.states == nil {
		c.states = map[string]*condition{}
	}
	on := make(map[string]Event, len(hold))
	for _, e := range hold {
		subject := e.stateID()
		on[subject] = e
		if c.states[subject] == nil && len(c.states) < maxConditions {
			c.states[subject] = &condition{}
		}
	}
	for subject, s := range c.states {
		e, holds := on[subject]
		if holds == s.notified {
			s.differs = false
			if !s.notified {
				delete(c.states, subject)
			}
			continue
		}
		if !s.differs {
			s.differs, s.changed = true, now
		}
		if now.Sub(s.changed) < settle {
			continue
		}
		if holds {
			e.At = s.changed
			s.event = e
		} else {
			e = s.event
			e.Since, e.At, e.Ended, e.Why = s.event.At, s.changed, true, ""
		}
		s.notified, s.differs = holds, false
		tell = append(tell, e)
	}
	slices.SortFunc(tell, func(a, b Event) int { return strings.Compare(a.stateID(), b.stateID()) })
	return tell
}
