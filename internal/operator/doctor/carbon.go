package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/operator/carbon"
	"github.com/hotparam/pipeline/internal/transport/graphite"
)

// minCreates is the number of new metrics a minute below which hot keys wait for their file. Already a quiet site has
// one new key a second.
const minCreates = 1000

// fewUpdates is the number of writes a second below which a site with as many keys falls behind.
const fewUpdates = 1000

// Carbon judges the configuration of carbon. flush is the interval at which the StatsD server writes, or 0 if it is not
// known.
func Carbon(in carbon.Inspection, flush time.Duration, want Expected) []Finding {
	l := &list{where: in.Dir}
	for _, p := range in.Problems {
		l.addUnknown("a part of carbon's configuration", p)
	}
	l.carbonPace(in)
	for _, metric := range want.Metrics {
		l.carbonSchema(in, metric, flush, want)
		l.carbonAggregation(in, metric)
	}
	return l.findings
}

func (l *list) carbonPace(in carbon.Inspection) {
	where := in.Dir + "/carbon.conf [cache]"
	if n := parseBound(in.Settings["MAX_CREATES_PER_MINUTE"]); n < minCreates {
		l.addFailure(Finding{What: fmt.Sprintf("MAX_CREATES_PER_MINUTE = %g", n), Where: where,
			Why: fmt.Sprintf("carbon makes files for %g new metrics a minute and throws the points of all others "+
				"away: a key that goes viral is new, and stays invisible for minutes while a crawler brings new keys", n),
			Fix: "MAX_CREATES_PER_MINUTE = inf"})
	} else {
		l.addOK("new metrics get a file at once (MAX_CREATES_PER_MINUTE = %g)", n)
	}
	if n := parseBound(in.Settings["MAX_UPDATES_PER_SECOND"]); n < fewUpdates {
		l.addWarning(Finding{What: fmt.Sprintf("MAX_UPDATES_PER_SECOND = %g", n), Where: where,
			Why: "with more keys than that a second, points wait in carbon's memory; a question to the files alone finds old ones", Fix: "MAX_UPDATES_PER_SECOND = 5000"})
	}
}

// wantedStep returns the interval, in seconds, at which points should be kept: flush, but not more than the shortest
// window, or 1, the finest that carbon can, if flush is not known.
func wantedStep(flush time.Duration, want Expected) int {
	return max(1, int(min(flush, want.Window).Seconds()))
}

// parseBound reads a bound of carbon. A bound that is not set is infinite.
func parseBound(text string) float64 {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n
	}
	return math.Inf(1)
}

func (l *list) carbonSchema(in carbon.Inspection, metric string, flush time.Duration, want Expected) {
	fix := fmt.Sprintf("[hotparam]\npattern = hot_param\nretentions = %ds:6h,10s:7d\n# first in %s/storage-"+
		"schemas.conf; files that exist keep theirs: whisper-resize.py", wantedStep(flush, want), in.Dir)
	s := in.SchemaOf(metric)
	if s == nil {
		l.addFailure(Finding{What: "no schema is known to match " + metric, Where: in.Dir + "/storage-schemas.conf",
			Why: "carbon then keeps one point a minute for a day", Fix: fix})
		return
	}
	where := fmt.Sprintf("%s/storage-schemas.conf:%d [%s]", in.Dir, s.Line, s.Name)
	switch {
	case s.Step == 0: // it is among the problems
	case s.Step > want.Window:
		level := Warn
		why := fmt.Sprintf("the history shows nothing that lasts less than %v", s.Step)
		if want.FromGraphite {
			level, why = Fail, fmt.Sprintf("a window of %v cannot be judged by points that are %v apart", want.Window,
				s.Step)
		}
		l.add(level, Finding{What: fmt.Sprintf("%s is kept as one point in %v; the shortest window is %v", metric,
			s.Step, want.Window), Where: where, Why: why, Fix: fix})
	case flush > 0 && s.Step > flush:
		l.addFailure(Finding{
			What:  fmt.Sprintf("%s is kept as one point in %v, and comes every %v", metric, s.Step, flush),
			Where: where, Why: "within a step the last point wins: the counts before it are lost", Fix: fix})
	default:
		l.addOK("%s is kept every %v for %v", metric, s.Step, s.Keep)
	}
}

func (l *list) carbonAggregation(in carbon.Inspection, metric string) {
	where, method, factor := in.Dir+"/storage-aggregation.conf", "average", 0.5
	if a := in.AggregationOf(metric); a != nil {
		where = fmt.Sprintf("%s:%d [%s]", where, a.Line, a.Name)
		method = a.Method
		if a.XFilesFactor >= 0 {
			factor = a.XFilesFactor
		}
	}
	if method == "sum" && factor == 0 {
		l.addOK("%s is summed when it is thinned out", metric)
		return
	}
	l.addWarning(Finding{What: fmt.Sprintf("%s is thinned out by %s with xFilesFactor %g", metric, method, factor),
		Where: where, Why: "counts must be summed, and a key that was asked for in one second of ten must not vanish",
		Fix: "[hotparam]\npattern = hot_param\nxFilesFactor = 0\naggregationMethod = sum\n# first in " + in.Dir +
			"/storage-aggregation.conf"})
}

func Graphite(in graphite.Inspection, want Expected) []Finding {
	l := &list{where: "graphite " + in.URL}
	if in.Err != "" {
		l.addFailure(Finding{What: in.Err, Why: "no counts come from Graphite: nothing becomes hot",
			Fix: "curl -i '" + in.URL + "?target=randomWalk(1)&format=json'"})
		return l.findings
	}
	l.addOK("the render API answers")
	switch {
	case in.Version == "":
		l.addUnknown("the version of graphite-web", "it does not say")
	case !strings.HasPrefix(in.Version, "1.1") && !strings.HasPrefix(in.Version, "1.2"):
		l.addWarning(Finding{What: "graphite-web has version " + in.Version,
			Why: "it was made for 1.1: functions may be missing", Fix: "apt-get install graphite-web   # 1.1"})
	default:
		l.addOK("graphite-web %s", in.Version)
	}
	if in.PollErr != "" {
		l.addFailure(Finding{What: "the query of the aggregator is rejected: " + in.PollErr,
			Why: "no counts come from Graphite: nothing becomes hot",
			Fix: "graphite: {targets: …}   # without the function that it does not have"})
	}
	l.graphiteClock(in, want)
	l.graphiteData(in, want)
	return l.findings
}

func (l *list) graphiteClock(in graphite.Inspection, want Expected) {
	switch off := in.ClockAhead.Abs(); {
	case !in.ClockKnown:
		l.addUnknown("its clock", "answers have no Date")
	case off > want.Lateness:
		l.addFailure(Finding{
			What: fmt.Sprintf("its clock is %v ahead of this machine's", in.ClockAhead.Round(time.Second)),
			Why:  fmt.Sprintf("counts that are %v off have no place in a window (detect.lateness)", want.Lateness),
			Fix:  "chronyc tracking   # on both machines"})
	case off > 2*time.Second:
		l.addWarning(Finding{
			What: fmt.Sprintf("its clock is %v ahead of this machine's", in.ClockAhead.Round(time.Second)),
			Why:  "counts come late, or seem to come from the future", Fix: "chronyc tracking   # on both machines"})
	default:
		l.addOK("its clock is this machine's, to about a second")
	}
}

func (l *list) graphiteData(in graphite.Inspection, want Expected) {
	if in.Series == 0 {
		l.addWarning(Finding{What: "it has no metric of ours in the last ten minutes",
			Why: "nothing was counted, or it is stored under other names",
			Fix: "graphite: {prefix: stats_counts}   # or prefix: stats.counters, suffix: count with legacyNamespace off; and names.prefix"})
		return
	}
	switch {
	case in.Age < 0 || in.Age > want.Lateness+2*in.Flush:
		age := "ten minutes or more"
		if in.Age >= 0 {
			age = in.Age.Round(time.Second).String()
		}
		l.addWarning(Finding{What: fmt.Sprintf("the newest point of %d metrics of ours is %s old", in.Series, age),
			Why: "counts that come later than detect.lateness are dropped",
			Fix: "hotparam doctor --statsd.admin HOST:8126 --carbon.conf DIR   # reports whether StatsD or carbon is slow"})
	default:
		l.addOK("the newest point of %d metrics of ours is %v old", in.Series, in.Age.Round(time.Second))
	}
	switch {
	case in.Step == 0:
	case in.Step > want.Window:
		l.addFailure(Finding{What: fmt.Sprintf("points are %v apart; the shortest window is %v", in.Step, want.Window),
			Why: "a window cannot be judged by points that are further apart",
			Fix: "hotparam doctor --carbon.conf DIR   # names the line of storage-schemas.conf"})
	case in.Step > in.Flush:
		l.addFailure(Finding{What: fmt.Sprintf("points are %v apart; graphite.flush is %v", in.Step, in.Flush),
			Why: "of several flushes in one point the last wins: the counts before it are lost",
			Fix: "graphite: {flush: " + in.Step.String() +
				"}   # if that is the flushInterval of the server; else finer retentions"})
	case in.Step < in.Flush:
		l.addOK("points are %v apart, finer than graphite.flush %v", in.Step, in.Flush)
	default:
		l.addOK("points are %v apart, as graphite.flush says", in.Step)
	}
}
