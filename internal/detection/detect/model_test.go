package detect

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// model is a Detector by brute force: it keeps every count that it accepted, adds them up for every question, and
// judges every key in every second.
type model struct {
	set    *rules.Set
	opts   Options
	second int64
	now    time.Time
	counts map[string]map[hottype.Key]map[int64]int64 // by rule, key, second
	cands  map[hottype.Key]*judged
	late   map[string]bool // counts of earlier seconds have come, by rule
	gone   []Change
}

// judged is a candidate of the model.
type judged struct {
	key          hottype.Key
	sum          int64
	peak         float64
	since, below time.Time
	seen, shown  bool
}

func (m *model) rule(key hottype.Key) (found *rules.Rule) {
	for _, r := range m.set.Rules {
		if r.Name == key.Resource() || r.Name == "*" && found == nil {
			found = r
		}
	}
	return found
}

func (m *model) sum(key hottype.Key) int64 { return m.sumAt(key, m.second) }

func (m *model) sumAt(key hottype.Key, second int64) (n int64) {
	r := m.rule(key)
	for s := second - wholeSeconds(r.Hot.Window) + 1; s <= second; s++ {
		n += m.counts[r.Name][key][s]
	}
	return n
}

// look judges every key by the current second.
func (m *model) look(now time.Time) {
	for _, r := range m.set.Rules {
		for key := range m.counts[r.Name] {
			if m.rule(key) == r && m.cands[key] == nil && m.sum(key) >= r.Threshold() {
				m.cands[key] = &judged{key: key, since: now}
			}
		}
	}
	for key, c := range m.cands {
		r := m.rule(key)
		c.sum = m.sum(key)
		c.peak = max(c.peak, float64(c.sum)/r.Hot.Window.Seconds())
		if c.sum >= rules.LeastCount(r.CountOf(r.Hot.Rate)*r.Hot.ReleaseRatio) {
			c.below = time.Time{}
		} else if c.below.IsZero() {
			c.below = time.Unix(m.second, 0)
		}
		m.lookBefore(key, c)
	}
}

// lookBefore judges a candidate by the window that ended when this second began, if counts of that window came late.
func (m *model) lookBefore(key hottype.Key, c *judged) {
	r, begin := m.rule(key), time.Unix(m.second, 0)
	before := m.sumAt(key, m.second-1)
	if !m.late[r.Name] {
		return
	}
	c.peak = max(c.peak, float64(before)/r.Hot.Window.Seconds())
	release := rules.LeastCount(r.CountOf(r.Hot.Rate) * r.Hot.ReleaseRatio)
	if before >= release && !c.below.IsZero() && c.below.Before(begin) {
		c.below = begin
	}
}

func (m *model) advance(now time.Time) time.Time {
	if m.now.IsZero() {
		m.second = now.Unix()
	}
	for m.second < now.Unix() {
		m.second++
		clear(m.late)
		m.look(time.Unix(m.second, 0))
	}
	if now.After(m.now) {
		m.now = now
	}
	return m.now
}

func (m *model) add(now time.Time, c hottype.Count) bool {
	now = m.advance(now)
	r := m.rule(c.Key)
	if r == nil || c.N <= 0 || c.Second > m.second+wholeSeconds(m.opts.Future) ||
		c.Second < m.second-wholeSeconds(r.Hot.Window) || c.Second < m.second-wholeSeconds(m.opts.Lateness) {
		return false
	}
	if m.counts[r.Name] == nil {
		m.counts[r.Name] = map[hottype.Key]map[int64]int64{}
	}
	if m.counts[r.Name][c.Key] == nil {
		m.counts[r.Name][c.Key] = map[int64]int64{}
	}
	m.counts[r.Name][c.Key][c.Second] += c.N
	was := m.cands[c.Key] != nil
	if c.Second < m.second {
		m.late[r.Name] = true
		if !was && m.sumAt(c.Key, m.second-1) >= r.Threshold() {
			m.cands[c.Key] = &judged{key: c.Key, since: now}
		}
	}
	m.look(now)
	return !was && m.cands[c.Key] != nil
}

func (m *model) setRules(set *rules.Set) {
	old := m.set
	windows := map[string]time.Duration{}
	for _, r := range set.Rules {
		windows[r.Name] = r.Hot.Window
	}
	of, was := map[hottype.Key]*rules.Rule{}, map[hottype.Key]hottype.HotKey{}
	for key, c := range m.cands {
		of[key] = m.rule(key)
		before := *c
		was[key] = m.hot(of[key], &before)
	}
	m.set = set
	for _, r := range old.Rules {
		if windows[r.Name] != r.Hot.Window {
			delete(m.counts, r.Name)
		}
	}
	for key, c := range m.cands {
		now := m.rule(key)
		if now == nil || now.Name != of[key].Name {
			if delete(m.cands, key); c.shown {
				m.gone = append(m.gone, Change{Kind: Cooled, Hot: was[key]})
			}
		} else if now.Hot.Window != of[key].Hot.Window {
			c.below = time.Unix(m.second, 0)
		}
	}
	m.look(time.Unix(m.second, 0))
	for _, c := range m.cands {
		c.seen = true
	}
}

// hot includes the second that left the window last, by the part of the current second that is still to come.
func (m *model) hot(r *rules.Rule, c *judged) hottype.HotKey {
	w := wholeSeconds(r.Hot.Window)
	left := m.counts[r.Name][c.key][m.second-w]
	elapsed := float64(m.now.Nanosecond()) / 1e9
	rate := (float64(c.sum) + (1-elapsed)*float64(left)) / float64(w)
	c.peak = max(c.peak, rate)
	var all int64
	for key := range m.counts[r.Name] {
		if r.Name != "*" || key.Resource() == c.key.Resource() {
			all += m.sum(key)
		}
	}
	h := hottype.HotKey{Key: c.key, Rule: r.Name, Rate: rate, Lower: rate, Upper: rate, Why: "rate", PeakRate: c.peak,
		Since: c.since}
	if all > 0 {
		h.Share = float64(c.sum) / float64(all)
	}
	return h
}

// firm orders by weight; a key in the set counts a tenth more.
func firm(a, b *judged) int {
	weight := func(c *judged) int64 {
		if c.shown {
			return 11 * c.sum
		}
		return 10 * c.sum
	}
	return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a.key, b.key))
}

func (m *model) tick(now time.Time) (report.HotSet, []Change) {
	now = m.advance(now)
	var keys []hottype.HotKey
	changes := m.gone
	for i := range changes {
		changes[i].At, changes[i].Hot.Until = now, now
	}
	for _, r := range m.set.Rules {
		var ranked []*judged
		for key, c := range m.cands {
			if m.rule(key) != r {
				continue
			}
			if c.below.IsZero() || now.Sub(c.below) < r.Hot.Cooldown {
				ranked = append(ranked, c)
				continue
			}
			if delete(m.cands, key); c.shown {
				changes = append(changes, Change{m.until(r, c, now), Cooled, now, false})
			}
		}
		slices.SortFunc(ranked, firm)
		for i, c := range ranked {
			m.hot(r, c) // its peak is known even without a place
			in := r.Hot.MaxHot == 0 || i < r.Hot.MaxHot
			if in {
				keys = append(keys, m.until(r, c, now.Add(m.opts.HotTTL)))
			}
			switch {
			case in && !c.shown && !c.seen:
				changes = append(changes, Change{keys[len(keys)-1], BecameHot, c.since, false})
			case in && !c.shown:
				changes = append(changes, Change{keys[len(keys)-1], BecameHot, now, false})
			case !in && c.shown:
				changes = append(changes, Change{m.until(r, c, now), Cooled, now, true})
			}
			c.seen, c.shown = true, in
		}
	}
	slices.SortFunc(keys, func(a, b hottype.HotKey) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Key, b.Key))
	})
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(b.Kind, a.Kind), cmp.Compare(a.Hot.Key, b.Hot.Key))
	})
	m.gone = nil
	return report.HotSet{At: now, Keys: keys}, changes
}

func (m *model) until(r *rules.Rule, c *judged, t time.Time) hottype.HotKey {
	h := m.hot(r, c)
	h.Until = t
	return h
}

func (m *model) over(s int64) (over []hottype.Key) {
	m.advance(time.Unix(s, 0))
	for _, r := range m.set.Rules {
		for key := range m.counts[r.Name] {
			if m.rule(key) == r && m.sum(key) >= r.Threshold() {
				over = append(over, key)
			}
		}
	}
	slices.Sort(over)
	return over
}

// drawRules returns one to three rules. Everything but their names differs between draws.
func drawRules(t *rapid.T) *rules.Set {
	set := &rules.Set{}
	for _, name := range rapid.SampledFrom([][]string{{"a"}, {"a", "b"}, {"a", "*"}, {"a", "b", "*"}}).
		Draw(t, "rules") {
		set.Rules = append(set.Rules, &rules.Rule{Name: name, Hot: rules.HotCriteria{
			Rate:   rapid.SampledFrom([]float64{2, 5, 7.5}).Draw(t, "rate"),
			Window: time.Duration(rapid.SampledFrom([]int{1, 3, 5, 15}).Draw(t, "window")) * time.Second,
			Cooldown: time.Duration(rapid.SampledFrom([]int{0, 1000, 2500, 6000}).
				Draw(t, "cool")) * time.Millisecond,
			ReleaseRatio: rapid.SampledFrom([]float64{0.5, 0.7, 1}).Draw(t, "ratio"),
			MaxHot:       rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "max hot"),
		}})
	}
	return set
}

func TestDetector_AgreesWithBruteForce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := drawRules(t)
		o := Options{
			Lateness: time.Duration(rapid.IntRange(1, 12).Draw(t, "lateness")) * time.Second,
			Future:   time.Duration(rapid.IntRange(1, 3).Draw(t, "future")) * time.Second,
		}.withDefaults()
		d, m := New(set, o), &model{set: set, opts: o, counts: map[string]map[hottype.Key]map[int64]int64{},
			cands: map[hottype.Key]*judged{}, late: map[string]bool{}}
		now := time.Unix(1_700_000_000, 0)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			if now.Before(m.now.Add(-time.Second)) {
				now = m.now // steps back of the clock are another test
			}
			switch op := rapid.IntRange(0, 19).Draw(t, "op"); {
			case op < 13:
				now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 40, 900, -300}).
					Draw(t, "ms")) * time.Millisecond)
				c := hottype.Count{
					Key: hottype.NewKey(rapid.SampledFrom([]string{"a", "a", "b", "/c"}).Draw(t, "resource"),
						fmt.Sprint("k=", rapid.IntRange(0, 3).Draw(t, "key"))),
					Second: now.Unix() + rapid.Int64Range(-6, 4).Draw(t, "ahead"),
					N:      rapid.Int64Range(0, 12).Draw(t, "n"),
				}
				if got, want := d.Add(now, c), m.add(now, c); got != want {
					t.Fatalf("Add(%v, %+v) = %v", now, c, got)
				}
			case op < 17:
				now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 100, 700, 1000, 4000, 30_000}).
					Draw(t, "ms")) * time.Millisecond)
				gotSet, gotChanges := d.Tick(now)
				wantSet, wantChanges := m.tick(now)
				if diff := gocmp.Diff(wantSet, gotSet) + gocmp.Diff(wantChanges, gotChanges); diff != "" {
					t.Fatalf("Tick(%v) -want +got\n%s", now, diff)
				}
			case op < 19:
				s := max(now.Unix(), m.second) + rapid.Int64Range(0, 1).Draw(t, "over")
				if diff := gocmp.Diff(m.over(s), d.OverThreshold(s)); diff != "" {
					t.Fatalf("Over(%d) -want +got\n%s", s, diff)
				}
			default:
				if !m.now.IsZero() {
					next := drawRules(t)
					d.SetRules(next)
					m.setRules(next)
				}
			}
		}
	})
}
