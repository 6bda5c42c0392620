package graphite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// series is one element of a response. A point is a value and a time; a missing value is "".
type series struct {
	Target     string           `json:"target"`
	Datapoints [][2]json.Number `json:"datapoints"`
}

type bucket struct {
	at    int64
	value float64
}

var errTooBig = errors.New("the answer is too long")

// readSeries calls each for every series of a JSON response until an error occurs.
func readSeries(r io.Reader, each func(*series)) error {
	dec := json.NewDecoder(r)
	open, err := dec.Token()
	if err != nil {
		return describeFault(err)
	}
	if open != json.Delim('[') {
		return fmt.Errorf("the response is not a list of series, it begins with %.20v", open)
	}
	for dec.More() {
		var s series
		if err := dec.Decode(&s); err != nil {
			return describeFault(err)
		}
		each(&s)
	}
	_, err = dec.Token()
	return describeFault(err)
}

func describeFault(err error) error {
	_, tooBig := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		return nil
	case tooBig:
		return errTooBig
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the answer ends too early")
	}
	return fmt.Errorf("the response is not JSON of the render API: %w", err)
}

// parseBuckets returns the points of a series that have a value, in the order of time. step is the distance between
// points, or 0 for a single one. last is the time of the last point, with or without a value. bad is the number of
// points with an impossible value or time.
func (s *series) parseBuckets(dst []bucket) (_ []bucket, step, last int64, bad int) {
	times := make([]int64, 0, len(s.Datapoints))
	for _, p := range s.Datapoints {
		at, err := strconv.ParseInt(string(p[1]), 10, 64)
		if err != nil || at <= 0 || at > maxTime {
			bad++
			continue
		}
		times = append(times, at)
		if p[0] == "" {
			continue
		}
		v, err := strconv.ParseFloat(string(p[0]), 64)
		if err != nil || math.IsNaN(v) || v < 0 || v > maxValue {
			bad++
			continue
		}
		dst = append(dst, bucket{at, v})
	}
	slices.Sort(times)
	for i := 1; i < len(times); i++ {
		if d := times[i] - times[i-1]; d > 0 && (step == 0 || d < step) {
			step = d
		}
	}
	if len(times) > 0 {
		last = times[len(times)-1]
	}
	if !slices.IsSortedFunc(dst, byTime) {
		slices.SortStableFunc(dst, byTime)
	}
	return dst, step, last, bad
}

func byTime(a, b bucket) int { return int(a.at - b.at) }

const (
	maxTime  = 1 << 40 // in the year 36812
	maxValue = 1 << 53 // a float beyond it does not hold an exact count
)

// evenShare returns the share of second i if n requests are divided evenly among k seconds.
func evenShare(n, k, i int64) int64 {
	whole, rest := n/k, n%k
	return whole + rest*(i+1)/k - rest*i/k
}

const (
	// maxFlush is the longest flush interval that can be spread over seconds.
	maxFlush = 5 * time.Minute
	// maxLag is the number of seconds by which Graphite may lag and still count as current.
	maxLag = 30
	// maxQuery is the maximum size of the targets of one request, in bytes.
	maxQuery = maxTarget + 100
)

type plan struct {
	queries  []string // the encoded targets of each request
	window   int64    // longest window of the rules, in seconds
	lookback int64    // number of seconds that are requested
}

// newPlan makes the targets of all rules and packs them into few requests.
func newPlan(cfg Config, set *rules.Set) *plan {
	p := &plan{window: 1}
	flush := int64(cfg.Flush / time.Second)
	var query string
	add := func(target string) {
		t := "target=" + url.QueryEscape(target)
		switch {
		case query == "":
			query = t
		case len(query)+len(t) >= maxQuery:
			p.queries = append(p.queries, query)
			query = t
		default:
			query += "&" + t
		}
	}
	for _, r := range set.Rules {
		p.window = max(p.window, int64(r.Hot.Window/time.Second))
		for _, t := range cfg.targetsOf(r) {
			add(t)
		}
	}
	if query != "" {
		for _, t := range cfg.heartbeatSeries() {
			add(t)
		}
		p.queries = append(p.queries, query)
	}
	// Carbon may write a flush of n seconds up to n seconds after it ended.
	p.lookback = p.window + 2*flush + maxLag
	return p
}

// heartbeatSeries returns the series that a StatsD server makes of our senders' heartbeats: a set for senders with an
// id, and a gauge for senders without one.
func (c Config) heartbeatSeries() [2]string {
	name := string(c.Names.AppendAlive(nil))
	return [2]string{"stats.sets." + name + ".count", "stats.gauges." + name}
}

// targetsOf returns the targets for the keys of one rule.
func (c Config) targetsOf(r *rules.Rule) []string {
	threshold := strconv.FormatFloat(c.thresholdOf(r), 'f', -1, 64)
	if targets, ok := c.Targets[r.Name]; ok {
		out := make([]string, len(targets))
		for i, t := range targets {
			out[i] = strings.ReplaceAll(t, "{threshold}", threshold)
		}
		return out
	}
	return []string{"maximumAbove(" + c.pathOf(r) + "," + threshold + ")"}
}

// pathOf returns the path of all metrics of a rule. The path of the catch-all rule also matches metrics of other rules;
// each series is counted once.
func (c Config) pathOf(r *rules.Rule) string {
	name := string(c.Names.Append(nil, hottype.Key(r.Name)))
	resource := strings.TrimPrefix(name, c.Names.Prefix+".")
	resource, _, _ = strings.Cut(resource, ".hot_param.")
	if r.IsCatchAll() {
		resource = "*"
	}
	path := c.Prefix + "." + c.Names.Prefix + "." + resource + ".hot_param.*"
	if c.Suffix != "" {
		path += "." + c.Suffix
	}
	return path
}

// thresholdOf returns the value that some bucket of a key has to exceed before the rule can judge the key hot, or still
// hot. It is a little below the release threshold, because maximumAbove leaves out values that only equal it. A share
// relates to all requests, and a surge to the past of the key, so that such rules need every series that is not idle.
func (c Config) thresholdOf(r *rules.Rule) float64 {
	if r.Hot.Share > 0 || r.Hot.Surge > 0 {
		return 0
	}
	perSecond := r.Hot.Rate * r.Hot.ReleaseRatio * float64(r.Cost.Unit())
	if c.Suffix != "rate" {
		perSecond *= c.Flush.Seconds()
	}
	const little = 0.999
	return math.Round(perSecond*little*1e6) / 1e6
}
