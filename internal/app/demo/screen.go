package demo

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

// screen writes the demo's story: a line each second and a line for each event.
type screen struct {
	out   io.Writer
	color bool
}

const (
	plain  = ""
	bold   = "1"
	dim    = "2"
	bad    = "31"
	good   = "32"
	notice = "33"
)

func (s *screen) colorText(code, text string) string {
	if !s.color || code == plain {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) printf(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }

func (s *screen) printHead(topics int, site, dashboard string, plan plan) {
	s.printf("\n%s\n\n", s.colorText(bold, "hotparam demo: one topic goes viral, every other topic stays quick"))
	s.printf("  the site       %s  %d topics, behind the real proxy\n", site, topics)
	if dashboard != "" {
		s.printf("  the dashboard  %s  open it and watch, or set a limit there\n", s.colorText(bold, dashboard))
	}
	s.printf("  the rule       topic?id=… is hot over 200/s, then held to 100/s; a crawler gets 5/s an address,\n" +
		"                 others 50/s; one client in a loop makes no topic hot\n")
	s.printf("  the plan       %s\n\n", plan.formatPlan())
	s.printf("%s\n", s.colorText(dim, fmt.Sprintf("  %5s %9s   %-20s   %-34s   %-17s   %s",
		"time", "asked", "other topics", fmt.Sprintf("topic?id=%d", ViralTopic), "crawlers",
		fmt.Sprintf("a loop on topic?id=%d", LoopTopic))))
}

// printSecond prints one line: the requests of the last second and the requests that were allowed.
func (s *screen) printSecond(at time.Duration, quiet, viral, crawler, loop Seen, hot bool) {
	share := 100.0
	if n := quiet.Total(); n > 0 {
		share = 100 * float64(quiet.OK) / float64(n)
	}
	color := good
	if quiet.OK < quiet.Total() {
		color = bad
	}
	state := "quiet"
	if hot {
		state = s.colorText(notice, "HOT  ")
	}
	s.printf("  %4.0fs %7d/s   %s        %s %-28s   %-17s   %s\n", at.Seconds(),
		quiet.Total()+viral.Total()+crawler.Total()+loop.Total(),
		s.colorText(color, fmt.Sprintf("%5.1f %% answered", share)), state, s.formatFlow(viral, 900),
		s.formatFlow(crawler, 0), s.formatFlow(loop, 0))
}

// formatFlow returns the requests and the allowed requests as text, with a bar if scale is not 0.
func (s *screen) formatFlow(v Seen, scale int) string {
	if v.Total() == 0 {
		return "-"
	}
	text := fmt.Sprintf("%4d/s ─> %3d/s", v.Total(), v.OK)
	if scale == 0 {
		return text
	}
	const width = 12
	asked := min(width, int(v.Total())*width/scale)
	let := min(asked, (int(v.OK)*width+scale-1)/scale)
	return text + " " + strings.Repeat("█", let) + strings.Repeat("░", asked-let)
}

func (s *screen) printNote(at time.Duration, color, format string, args ...any) {
	s.printf("  %5s %s\n", fmt.Sprintf("%.1fs", at.Seconds()), s.colorText(color, fmt.Sprintf(format, args...)))
}

// printResult prints the results, and the command that serves the reader's own site.
func (s *screen) printResult(r Result, serve string) {
	s.printf("\n%s\n", s.colorText(bold, "What happened"))
	q := r.Groups.Quiet
	s.printf("  other topics   %d asked, %d answered (%.2f %%)\n", q.Total(), q.OK, r.QuietAnswered)
	s.printReaders("viral topic", "held to its limit", &r.Limited, false)
	s.printReaders("", "from memory", &r.Served, true)
	s.printReaders("", "adaptive", &r.Adaptive.Quick, false)
	s.printReaders("", "the site is slow", &r.Adaptive.Slow, false)
	s.printf("  crawlers       %d asked, %d let through, %d turned away\n", r.Groups.Crawler.Total(),
		r.Groups.Crawler.OK, r.Groups.Crawler.Denied)
	s.printf("  the loop       %d asked, %d let through, %d turned away; its topic was never limited\n",
		r.Groups.Loop.Total(), r.Groups.Loop.OK, r.Groups.Loop.Denied)
	for i, w := range r.Waves {
		if !w.hasFixedLimit() {
			s.printf("  wave %d         found %.0f ms after the request that reached the threshold\n", i+1, w.FoundMS)
			continue
		}
		s.printf(
			"  wave %d         found %.0f ms after the request that reached the threshold, enforced after %.0f ms;\n"+
				"                 while it was hot %d of %d let through, at most %d by its limit\n",
			i+1, w.FoundMS, w.EnforcedMS, w.LetThrough, w.Asked, w.Bound)
	}
	if len(r.Waves) == 0 {
		s.printf("  no topic became hot: the demo was too short, or this machine too busy to send enough\n")
	}
	if r.tooBusy() {
		s.printf("  this machine was too busy: %d requests of the readers were not sent in time\n", r.Behind)
	}
	s.printf("\n  In front of a service of yours:  %s\n\n",
		s.colorText(bold, serve+" --upstream http://127.0.0.1:3000"))
}

// printReaders prints the number of readers of the viral topic that were answered in a wave. If responses came from
// memory, it also prints the number of requests that reached the site. In other waves every response is from the site.
func (s *screen) printReaders(what, how string, r *Readers, fromMemory bool) {
	n := r.Total()
	if n == 0 {
		return
	}
	site := ""
	if fromMemory {
		site = fmt.Sprintf(", from %d requests to the site", r.Site)
	}
	s.printf("  %-14s %-18s %6d asked, %6d answered (%.2f %%)%s\n", what, how+":", n, r.OK, 100*float64(r.OK)/float64(n),
		site)
}

// Result is the result of the demo.
type Result struct {
	DurationSeconds float64 `json:"duration_s"`
	Groups          struct {
		Quiet   Seen `json:"quiet"`
		Viral   Seen `json:"viral"`
		Crawler Seen `json:"crawler"`
		Loop    Seen `json:"loop"`
	} `json:"groups"`
	// QuietAnswered is the percentage of requests for other topics that got their page.
	QuietAnswered float64 `json:"quiet_answered_percent"`
	Waves         []Wave  `json:"waves"`
	// Limited and Served count the requests of the viral topic's readers in the first wave and in the second.
	Limited Readers `json:"limited"`
	Served  Readers `json:"served"`
	// Adaptive is the third wave, before and after the site became slow.
	Adaptive struct {
		Quick  Readers `json:"quick"`
		Slow   Readers `json:"slow"`
		Limits []Limit `json:"limits"`
	} `json:"adaptive"`
	// Course is the viral topic second by second. It is empty in a demo without an end.
	Course []Second `json:"course,omitempty"`
	// Behind counts requests that this machine was too slow to send.
	Behind uint64         `json:"behind"`
	Report report.Limiter `json:"report"`
}

// tooBusy reports whether this machine was too busy, so that the numbers mean little.
func (r *Result) tooBusy() bool {
	g := &r.Groups
	return r.Behind > (g.Quiet.Total()+g.Viral.Total()+g.Crawler.Total()+g.Loop.Total())/10
}

// Second counts the requests of the viral topic's readers in one second.
type Second struct {
	Seconds float64 `json:"at_s"` // at its end, since the beginning
	Seen
	Site uint64 `json:"site"` // requests that reached the site
}

// Limit is the adaptive limit in one second, and its reason.
type Limit struct {
	// Seconds since the beginning.
	Seconds float64 `json:"at_s"`
	// Rate is the limit of the viral topic in requests a second, and InFlight the limit of requests in flight.
	Rate     float64 `json:"rate"`
	InFlight float64 `json:"in_flight_cap"`
	// LatencyMS is the time within which nine of ten pages of the site came.
	LatencyMS float64 `json:"latency_ms"`
	Why       string  `json:"why"`
}

// Readers counts the requests of the viral topic's readers in a wave.
type Readers struct {
	Seen
	// Seconds is the length of the wave, and Site the number of requests that reached the site.
	Seconds float64 `json:"seconds"`
	Site    uint64  `json:"site"`
}

// recordSecond records the requests of the viral topic's readers in a second.
func (s *show) recordSecond(at time.Duration, seen Seen) {
	site := s.site.viral.Load()
	if s.opts.Duration > 0 { // a demo without an end keeps no list
		s.course = append(s.course, Second{at.Seconds(), seen, site - s.siteBefore})
	}
	s.siteBefore = site
}

// recordLimit records the adaptive limit, and prints it when it has changed by more than a fifth.
func (s *show) recordLimit(at time.Duration, bounds []hottype.UpstreamLimit) {
	if phase := s.plan.phaseAt(at); len(bounds) == 0 || phase != adaptive && phase != slowed {
		s.lastRate = 0
		return
	}
	b := &bounds[0]
	l := Limit{at.Seconds(), b.Rate, b.InFlightCap, 1000 * b.LatencySeconds, b.Why}
	if s.opts.Duration > 0 {
		s.limits = append(s.limits, l)
	}
	if !b.Saturated || math.Abs(l.Rate-s.lastRate) <= s.lastRate/5 {
		return
	}
	s.lastRate = l.Rate
	s.screen.printNote(at, notice, "  limit %.0f/s, at most %.0f at a time: nine of ten pages within %.0f ms; %s",
		l.Rate, l.InFlight, l.LatencyMS, l.Why)
}

func (s *show) resultSoFar() Result {
	r := Result{DurationSeconds: time.Since(s.start).Seconds(), Waves: s.watch.Waves(),
		Course: s.course, Behind: s.visitors.Behind.Load(), Report: s.local.Report()}
	r.Groups.Quiet, r.Groups.Viral, r.Groups.Crawler = s.visitors.Seen(Quiet), s.visitors.Seen(Viral),
		s.visitors.Seen(Crawler)
	r.Groups.Loop = s.visitors.Seen(Loop)
	r.Limited, r.Served = s.waves[limited], s.waves[served]
	r.Adaptive.Quick, r.Adaptive.Slow, r.Adaptive.Limits = s.waves[adaptive], s.waves[slowed], s.limits
	r.QuietAnswered = 100
	if n := r.Groups.Quiet.Total(); n > 0 {
		r.QuietAnswered = 100 * float64(r.Groups.Quiet.OK) / float64(n)
	}
	return r
}
