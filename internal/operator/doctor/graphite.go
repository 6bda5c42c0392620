package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/transport/graphite"
)

// Graphite judges the render API that detection reads.
func Graphite(in graphite.Inspection, want Expected) []Finding {
	l := &list{where: "graphite " + in.URL}
	if in.Err != "" {
		l.add(Fail, Finding{What: in.Err, Why: "no counts come from Graphite: nothing becomes hot",
			Fix: "curl -i '" + in.URL + "?target=randomWalk(1)&format=json'"})
		return l.findings
	}
	l.ok("the render API answers")
	switch {
	case in.Version == "":
		l.unknown("the version of graphite-web", "it does not say")
	case !strings.HasPrefix(in.Version, "1.1") && !strings.HasPrefix(in.Version, "1.2"):
		l.add(Warn, Finding{What: "graphite-web has version " + in.Version,
			Why: "it was made for 1.1: functions may be missing", Fix: "apt-get install graphite-web   # 1.1"})
	default:
		l.ok("graphite-web %s", in.Version)
	}
	if in.PollErr != "" {
		l.add(Fail, Finding{What: "what the aggregator asks is refused: " + in.PollErr,
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
		l.unknown("its clock", "answers have no Date")
	case off > want.Lateness:
		l.add(Fail,
			Finding{What: fmt.Sprintf("its clock is %v ahead of this machine's", in.ClockAhead.Round(time.Second)),
				Why: fmt.Sprintf("counts that are %v off have no place in a window (detect.lateness)", want.Lateness),
				Fix: "chronyc tracking   # on both machines"})
	case off > 2*time.Second:
		l.add(Warn,
			Finding{What: fmt.Sprintf("its clock is %v ahead of this machine's", in.ClockAhead.Round(time.Second)),
				Why: "counts come late, or seem to come from the future",
				Fix: "chronyc tracking   # on both machines"})
	default:
		l.ok("its clock is this machine's, to about a second")
	}
}

func (l *list) graphiteData(in graphite.Inspection, want Expected) {
	if in.Series == 0 {
		l.add(Warn, Finding{What: "it has no metric of ours in the last ten minutes",
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
		l.add(Warn, Finding{What: fmt.Sprintf("the newest point of %d metrics of ours is %s old", in.Series, age),
			Why: "counts that come later than detect.lateness are dropped",
			Fix: "hotparam doctor --statsd.admin HOST:8126 --carbon.conf DIR   # says whether StatsD or carbon is slow"})
	default:
		l.ok("the newest point of %d metrics of ours is %v old", in.Series, in.Age.Round(time.Second))
	}
	switch {
	case in.Step == 0:
	case in.Step > want.Window:
		l.add(Fail, Finding{What: fmt.Sprintf("points are %v apart; the shortest window is %v", in.Step, want.Window),
			Why: "a window cannot be judged by points that are further apart",
			Fix: "hotparam doctor --carbon.conf DIR   # says which line of storage-schemas.conf"})
	case in.Step > in.Flush:
		l.add(Fail, Finding{What: fmt.Sprintf("points are %v apart; graphite.flush is %v", in.Step, in.Flush),
			Why: "of several flushes in one point the last wins: the counts before it are lost",
			Fix: fmt.Sprintf(
				"graphite: {flush: %v}   # if that is the flushInterval of the server; else finer retentions",
				in.Step)})
	case in.Step < in.Flush:
		l.ok("points are %v apart, finer than graphite.flush %v", in.Step, in.Flush)
	default:
		l.ok("points are %v apart, as graphite.flush says", in.Step)
	}
}
