package aggregate

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
)

const (
	// SilentAfter is how long senders that promised a sign of life every second may be silent before the aggregator
	// logs and publishes that it has no input. incompleteAfter is how long they may be silent before cooling waits for
	// them.
	SilentAfter     = 3 * time.Second
	incompleteAfter = 2 * time.Second
	// promisedWithin is the time within which senders that promise a sign of life have sent one.
	promisedWithin = 1500 * time.Millisecond
)

// SourceStatus is the status of a source of counts at a moment.
type SourceStatus struct {
	// At is the time at which a sender was last heard; zero if never.
	At time.Time
	// Heartbeats is true if senders send at least once a second even without counts, so that silence means that they
	// cannot be heard.
	Heartbeats bool
	// Err is the reason why no sender can be heard now, or empty if no reason is known.
	Err string
	// LeftOut is true if counts have just been left out because their time of arrival is unknown.
	LeftOut bool
}

// SourceState is the state of a source as an Aggregator judges it.
type SourceState struct {
	Name    string
	Text    string // for people
	NoInput bool
}

// sourceMonitor watches the sources. The judging loop checks them; other goroutines read the result.
type sourceMonitor struct {
	cfg          Config
	began        time.Time
	looked       time.Time            // of the last check
	first        map[string]time.Time // when each source was first heard
	noInput      time.Time            // when input ended; zero while there is input
	expiryLogged bool                 // the end of NoInputTTL has been logged

	mu            sync.Mutex // guards the rest
	states        []SourceState
	completeSince time.Time // since when counts are complete; zero while they are not
}

type sourceCheck struct {
	noInput    bool // no counts come from the sources
	incomplete bool // counts may be missing
	// A source has reported an error before it is silent. Its lost counts must not cool keys until then.
	failing bool
	back    bool // counts are complete again with this check
}

func newSourceMonitor(cfg Config) *sourceMonitor {
	return &sourceMonitor{cfg: cfg, began: cfg.Now(), first: map[string]time.Time{}}
}

// check asks the sources, and returns the time at which it judges their answers. It logs once when the input ends, when
// it begins again, and when there was no input for NoInputTTL; keys is the number of hot keys.
func (s *sourceMonitor) check(keys int) (now time.Time, v sourceCheck) {
	names := slices.Sorted(maps.Keys(s.cfg.Sources))
	answers := make([]SourceStatus, len(names))
	for i, name := range names {
		answers[i] = s.cfg.Sources[name]()
	}
	now = s.cfg.Now() // after the answers: a process that is stopped while it asks has missed counts
	slept := now.Sub(s.looked)
	if !s.looked.IsZero() && slept > SilentAfter {
		v.incomplete = true
		s.cfg.Log.Warn("aggregate: this process stood still; hot keys do not cool by the counts missed meanwhile",
			"for", slept.Round(time.Millisecond), "hot_keys", keys)
	}
	s.looked = now
	waiting, unsure := len(s.cfg.Sources) > 0, false
	var states []SourceState
	for i, name := range names {
		status := answers[i]
		unsure = s.mayPromise(name, status) || unsure
		st := s.stateOf(name, status, now)
		states = append(states, st.SourceState)
		v.noInput = v.noInput || st.NoInput
		v.incomplete = v.incomplete || st.incomplete || status.LeftOut
		v.failing = v.failing || status.Err != "" && !st.NoInput
		waiting = waiting && st.waits
	}
	s.logChanges(&v, waiting, states, now, keys)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states = states
	whole := !v.incomplete && !v.noInput && !waiting && !unsure
	v.back = whole && s.completeSince.IsZero()
	switch {
	case !whole:
		s.completeSince = time.Time{}
	case s.completeSince.IsZero():
		s.completeSince = now
	}
	return now, v
}

// mayPromise reports whether a source was first heard so recently that its senders may still promise a sign of life.
// Until then a silence would not be noticed.
func (s *sourceMonitor) mayPromise(name string, h SourceStatus) bool {
	if h.Heartbeats || h.At.IsZero() {
		return false
	}
	first, heard := s.first[name]
	if !heard {
		first, s.first[name] = h.At, h.At
	}
	return h.At.Sub(first) < promisedWithin
}

type checkedSource struct {
	SourceState
	incomplete, waits bool
}

func (s *sourceMonitor) stateOf(name string, h SourceStatus, now time.Time) checkedSource {
	st := checkedSource{SourceState: SourceState{Name: name}}
	quiet := now.Sub(h.At)
	if h.At.Before(s.began) {
		quiet = now.Sub(s.began)
	}
	switch {
	case h.Err != "" && quiet > SilentAfter:
		st.Text, st.NoInput, st.incomplete = h.Err, true, true
	case h.At.IsZero():
		st.Text, st.waits = "waiting for the first sender", true
	case h.Heartbeats && h.Err == "" && quiet > s.goneAfter():
		st.Text = fmt.Sprintf("no sender heard for %v: waiting for the first one", quiet.Round(time.Second))
		st.waits = true
	case h.Heartbeats && quiet > SilentAfter:
		st.Text, st.NoInput, st.incomplete = fmt.Sprintf("no sender heard for %v", quiet.Round(time.Second)), true, true
	default:
		st.Text = fmt.Sprintf("heard %.1f s ago", quiet.Seconds())
		st.incomplete = h.Heartbeats && quiet > incompleteAfter
	}
	return st
}

// goneAfter returns how long senders must be silent before they are taken for removed.
func (s *sourceMonitor) goneAfter() time.Duration {
	if s.cfg.NoInputTTL <= 0 {
		return hotset.DefaultNoInputTTL
	}
	return max(s.cfg.NoInputTTL, SilentAfter)
}

// logChanges records since when there is no input, and logs when that begins and ends.
func (s *sourceMonitor) logChanges(v *sourceCheck, waiting bool, states []SourceState, now time.Time, keys int) {
	why := func() string {
		var list []string
		for _, st := range states {
			if st.NoInput || !v.noInput {
				list = append(list, st.Name+": "+st.Text)
			}
		}
		return strings.Join(list, "; ")
	}
	switch {
	case v.noInput && s.noInput.IsZero():
		s.noInput, s.expiryLogged = now, false
		s.cfg.Log.Warn("aggregate: no counts received: hot keys are kept, no key becomes hot",
			"why", why(), "hot_keys", keys, "kept_for", max(s.cfg.NoInputTTL, 0))
	case waiting && !s.noInput.IsZero():
		s.noInput = time.Time{}
		s.cfg.Log.Warn("aggregate: the senders are taken for gone: hot keys cool from now on", "sources", why(),
			"hot_keys", keys)
	case !v.noInput && !s.noInput.IsZero():
		s.cfg.Log.Warn("aggregate: input again", "sources", why(), "was_without_for",
			now.Sub(s.noInput).Round(time.Second), "hot_keys", keys)
		s.noInput = time.Time{}
	}
	if v.noInput && now.Sub(s.noInput) > s.cfg.NoInputTTL {
		v.incomplete = false
		if !s.expiryLogged {
			s.expiryLogged = true
			s.cfg.Log.Warn("aggregate: no input for too long: hot keys cool from now on", "why", why(),
				"hot_keys", keys)
		}
	}
}

// CountsSince returns the time since which this aggregator has counted everything that was sent to it, or the zero time
// without input or while it still waits for its first sender.
func (a *Aggregator) CountsSince() time.Time {
	a.sources.mu.Lock()
	defer a.sources.mu.Unlock()
	if len(a.cfg.Sources) == 0 && a.sources.completeSince.IsZero() {
		return a.sources.began
	}
	return a.sources.completeSince
}

// Sources returns the state of each source, by name.
func (a *Aggregator) Sources() []SourceState {
	a.sources.mu.Lock()
	defer a.sources.mu.Unlock()
	return slices.Clone(a.sources.states)
}

// CheckSources returns an error if no source has input.
func (a *Aggregator) CheckSources() error {
	var without []string
	states := a.Sources()
	for _, st := range states {
		if st.NoInput {
			without = append(without, st.Name+": "+st.Text)
		}
	}
	if len(without) == 0 || len(without) < len(states) {
		return nil
	}
	return fmt.Errorf("no input: %s", strings.Join(without, "; "))
}

// CheckPublication returns an error if the hot set is not published. It returns nil while another process publishes in
// place of this one.
func (a *Aggregator) CheckPublication() error {
	const old = 5 * time.Second // several publications
	p, failure := a.out.publicationStats()
	now := a.cfg.Now()
	switch {
	case failure != "":
		return fmt.Errorf("the hot set cannot be published: %s", failure)
	case p.Standby:
		return nil
	case p.LastPublished.IsZero():
		return fmt.Errorf("the hot set has not been published yet")
	case now.Sub(p.LastPublished) > old:
		return fmt.Errorf("the hot set was last published %v ago", now.Sub(p.LastPublished).Round(time.Second))
	}
	return nil
}

// alarm watches the errors of counts. It logs once when the error of a rule becomes too large, and once when that is
// over. Only the judging loop uses it.
type alarm struct {
	log    *slog.Logger
	looked time.Time
	on     map[string]bool // rules
	raised atomic.Uint64
}

// check judges the errors, once a second.
func (a *alarm) check(now time.Time, errors func() []detect.RuleError) {
	if since := now.Sub(a.looked); since >= 0 && since < time.Second {
		return
	}
	a.looked = now
	for _, e := range errors() {
		switch {
		case e.Ratio > detect.AlarmRatio && !a.on[e.Rule]:
			a.on[e.Rule] = true
			a.raised.Add(1)
			a.log.Warn("aggregate: more keys than there are counters for: hot keys of this rule may be found late; "+
				"raise detect.counters", "rule", e.Rule, "counting_error", e.Error, "threshold", e.Threshold)
		case e.Ratio < detect.AlarmRatio/2 && a.on[e.Rule]:
			delete(a.on, e.Rule)
			a.log.Info("aggregate: counts of this rule are good again", "rule", e.Rule, "counting_error", e.Error,
				"threshold", e.Threshold)
		}
	}
}
