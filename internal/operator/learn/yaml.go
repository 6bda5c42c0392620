package learn

import (
	"fmt"
	"io"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

type mode string

const (
	shadow  = mode(hottype.ModeShadow)
	enforce = mode(hottype.ModeEnforce)
)

func (p *Proposal) WriteYAML(w io.Writer) error {
	if _, err := io.WriteString(w, p.formatHeader()+p.formatConfig(shadow, 1)); err != nil {
		return fmt.Errorf("learn: writing the configuration: %w", err)
	}
	return nil
}

type file struct{ strings.Builder }

func (f *file) writeLine(format string, args ...any) { fmt.Fprintf(f, format+"\n", args...) }

// writeComment writes a comment. Its arguments may come from a log, so that the text is made printable, which also
// removes line ends.
func (f *file) writeComment(indent, format string, args ...any) {
	for _, line := range wrap(replay.Printable(fmt.Sprintf(format, args...)), 110-len(indent)) {
		f.writeLine("%s# %s", indent, line)
	}
}

// formatHeader returns the header of the file: the logs it was learned from and the effect it would have had.
func (p *Proposal) formatHeader() string {
	var f file
	r, o := p.Read, &p.Outcome
	f.writeComment("", "Learned by `%s` from %s by %s, %s to %s UTC.", p.by,
		formatCount(r.Requests, "request", "requests"), formatCount(int64(len(p.visitors.all)), "client", "clients"),
		replay.Clock(r.First), replay.Clock(r.Last))
	if hours := p.clock.timeSpan().Hours(); hours < 7*24 {
		f.writeComment("", "It is a sketch of %s, not of a usual week: learn again from more.",
			formatSpan(p.clock.timeSpan()))
	}
	for _, line := range p.listCaveats() {
		f.writeComment("", "%s", line)
	}
	f.writeLine("#")
	for _, line := range o.summaryLines(p) {
		f.writeComment("", "%s", line)
	}
	f.writeLine("")
	return f.String()
}

func (p *Proposal) listCaveats() (all []string) {
	all = append(all, p.notes...)
	if p.squeezed != "" {
		all = append(all, "No rule is certain: "+p.squeezed+".")
	}
	if p.proxied != "" {
		all = append(all, "Clients are not known: "+p.proxied+". So min_clients is 0, which takes a loop for many, "+
			"and there are no windows per client. Log the client's address or X-Forwarded-For, name public "+
			"proxies in --ip.trusted_proxies, and learn again.")
	}
	all = append(append(all, p.describeUniqueKeys()...), p.describeCostly()...)
	all = append(all, p.listDoubts()...)
	if p.visitors.dropped > 0 {
		all = append(all, fmt.Sprintf("%s requests are by clients beyond the %s that are tracked.",
			replay.Grouped(p.visitors.dropped), replay.Grouped(maxClients)))
	}
	if p.dropped > 0 {
		all = append(all, fmt.Sprintf("%s requests are for keys beyond the number that is measured at a time.",
			replay.Grouped(p.dropped)))
	}
	if r := p.Read; r.Malformed > 0 {
		all = append(all, fmt.Sprintf("%s of %s lines are malformed and left out.", replay.Grouped(r.Malformed),
			replay.Grouped(r.Lines)))
	}
	return all
}

// A log with fewer requests or fewer clients is too small to rely on what it shows.
const (
	smallRequests = 2000
	smallClients  = 100
)

func (p *Proposal) listDoubts() (all []string) {
	if p.cut != nil {
		all = append(all, fmt.Sprintf("The log could not be read to its end (%v): this is learned from the part before.",
			p.cut))
	}
	if n, clients := p.Read.Requests, len(p.visitors.all); n < smallRequests || clients < smallClients {
		all = append(all, fmt.Sprintf("The log is small: %s requests by %s clients show little of the usual traffic.",
			replay.Grouped(n), replay.Grouped(int64(clients))))
	}
	for client, c := range p.visitors.all {
		if k := p.visitors.kindOf(c); 2*c.requests > p.visitors.requests && k != probe && k != self {
			all = append(all, fmt.Sprintf("One client, %s, sent %.0f %% of all requests: the log shows what it does, not "+
				"what people do.", replay.Fit(replay.Printable(client.String()), 40),
				100*float64(c.requests)/float64(p.visitors.requests)))
		}
	}
	if p.perIP.none == "" && p.perIP.guess != "" {
		all = append(all, "The windows per client are a guess: "+p.perIP.guess+".")
	}
	return all
}

// formatConfig returns the configuration, with the limits divided by divide, because a dry run also tries lower limits.
func (p *Proposal) formatConfig(m mode, divide int64) string {
	var f file
	f.writeLine("rules:")
	for _, r := range p.rules {
		p.writePageRules(&f, r)
		p.writeRule(&f, r, m, divide)
	}
	p.writeCatchAll(&f)
	p.writeWindows(&f, m)
	return f.String()
}

// writePageRules writes rules of their own for pages that a pattern would take for values.
func (p *Proposal) writePageRules(f *file, r *proposed) {
	for i, m := range r.pages {
		f.writeLine("  - name: %s_page_%d", r.name, i+1)
		f.writeComment("    ", "A page, not a value of %s: watched as everything else is, and never limited.",
			r.at.pattern)
		f.writeLine("    match: {path: %s}", quote(string(m.key)))
		f.writeLine(`    params: ["*"]`)
		f.writeLine("    ignore: [%s]", quoteAll(globsOf(p.ignored)))
		f.writeLine("    hot: %s", p.restHot())
	}
}

func (p *Proposal) writeRule(f *file, r *proposed, m mode, divide int64) {
	f.writeLine("  - name: %s", r.name)
	f.writeLine("    match: {path: %s}", quote(r.at.pattern))
	p.writeParamComments(f, r)
	f.writeLine("    params: [%s]", quoteAll(r.paramNames()))
	t := &r.threshold
	who := "Most requests for a value in %d s"
	if p.minClients > 0 {
		who += fmt.Sprintf(", each client counted for at most 1/%d of the threshold", p.minClients)
	}
	if t.hasViralValues() {
		f.writeComment("    ", who+": %s. The threshold is in the gap.", t.window, formatGap(t))
	} else {
		f.writeComment("    ", who+": %s. Nothing stands out, so the threshold is well above all of them.",
			t.window, formatGap(t))
	}
	surge := ""
	if floor := p.surgeFloor(t); floor > 0 {
		f.writeComment("    ",
			"A value that grows eightfold is hot from %d in %d s on: more than any ordinary value had.",
			floor, t.window)
		surge = fmt.Sprintf(", surge: 8, min_rate: %d/%ds", floor, t.window)
	}
	f.writeLine("    hot: {rate: %d/%ds%s, window: %ds, min_clients: %d}", t.requests, t.window, surge, t.window,
		p.minClients)
	if !t.hasViralValues() {
		f.writeComment("    ", "No limit: set one when a value becomes hot, or when you know what the service bears.")
		return
	}
	rate, burst, served := r.guessLimit()
	if served > 0 {
		f.writeComment("    ",
			"GUESS: a log does not show the capacity of the service. It served %d in 5 s for one value; this "+
				"is at least twice that.", served)
	} else {
		f.writeComment("    ", "GUESS: a log does not show the capacity of the service, and no value was requested often.")
	}
	f.writeComment("    ", "Measure the service, lower the limit, watch the would-be denials, then take mode: enforce.")
	f.writeLine("    limit: {rate: %d/s, burst: %d, mode: %s}", max(1, rate/divide), max(1, burst/divide), m)
}

func (p *Proposal) writeParamComments(f *file, r *proposed) {
	for _, t := range r.params {
		v := t.values
		top, others := "", ""
		if v.topShare() >= 0.01 {
			top = fmt.Sprintf(", %.0f %% of them for one value", 100*v.topShare())
		}
		if v.repeats > 0 {
			others = fmt.Sprintf("; the next request for a value is another client's in %.0f %%",
				100*v.otherClientShare())
		}
		f.writeComment("    ", "%s: %s values in %s requests%s%s.", t.name, formatEstimate(v.distinct.count()),
			replay.Grouped(v.requests), top, others)
	}
	for _, t := range r.at.params {
		if t.why != "" {
			f.writeComment("    ", "Not %s: %s.", t.name, t.why)
		}
	}
}

// surgeFloor returns the minimum number of requests in the window at which a surge is significant, above the ordinary
// peaks and below the threshold, or 0 if there is no such number.
func (p *Proposal) surgeFloor(t *threshold) int64 {
	if !t.hasViralValues() || len(t.below) == 0 {
		return 0
	}
	floor := max(leastThreshold, int64(1.25*t.below[0])+1)
	if 5*floor > 4*t.requests {
		return 0
	}
	return floor
}

func (p *Proposal) writeCatchAll(f *file) {
	f.writeComment("  ", "Ten logins a minute for each client, for example; a log does not show which routes need it:")
	f.writeLine("  # %s", loginExample)
	f.writeComment("  ",
		"Everything else is watched and never limited: a key that becomes hot here may need a rule of its own.")
	f.writeLine(`  - name: "*"`)
	f.writeLine(`    params: ["*"]`)
	f.writeComment("    ",
		"Noise, which makes many keys of one page. Links and libraries usually add utm_* to _.")
	for _, i := range p.ignored {
		f.writeComment("    ", "%s: %s requests; %s.", i.glob, replay.Grouped(i.requests), i.why)
	}
	f.writeLine("    ignore: [%s]", quoteAll(globsOf(p.ignored)))
	t := &p.rest
	switch {
	case p.squeezed != "":
		f.writeComment("    ", "GUESS: the log shows no rates.")
	case t.hasViralValues():
		f.writeComment("    ", "Most requests for one of them in %d s: %s. The threshold is in the gap.",
			t.window, formatGap(t))
	case p.restMost == 0:
		f.writeComment("    ", "The most for one of them in %d s: fewer than %d. This is 10 a second.", windows[0],
			leastScore)
	default:
		f.writeComment("    ", "The most for one of them in %d s: %.0f. This is twice that, and at least "+
			"10 a second.", windows[0], p.restMost)
	}
	f.writeLine("    hot: %s", p.restHot())
}

// restHot returns the criteria of keys without a rule.
func (p *Proposal) restHot() string {
	t := &p.rest
	switch {
	case p.squeezed != "":
		return fmt.Sprintf("{rate: 50, window: %ds, min_clients: %d}", windows[0], p.minClients)
	case t.hasViralValues():
		return fmt.Sprintf("{rate: %d/%ds, window: %ds, min_clients: %d}", t.requests, t.window, t.window, p.minClients)
	}
	rate := max(10, int64(2*p.restMost)/windows[0])
	return fmt.Sprintf("{rate: %d, window: %ds, min_clients: %d}", rate, windows[0], p.minClients)
}

func (p *Proposal) writeWindows(f *file, m mode) {
	w := &p.perIP
	addresses, reasons := p.exemptMachines()
	if w.none != "" {
		f.writeComment("", "No windows per client: %s.", w.none)
	} else {
		f.writeComment("", "%s ordinary clients: %s sent at most %d requests in a second and %d in a minute. Above "+
			"these windows: %d of them, and %d of %d loops and scanners.", replay.Grouped(int64(w.ordinary)), w.of,
			w.top1s, w.top60s, w.above, w.stopped, w.loops)
		if w.widened {
			f.writeComment("", "Widened to what the busiest of them needs, because a narrower window denies more than 1 in "+
				"%d requests of clients that are no loops or scanners.", usualDenied)
		}
		if w.guess != "" {
			f.writeComment("", "GUESS: %s.", w.guess)
		}
	}
	if w.none != "" && len(addresses) == 0 && len(p.proxies) == 0 {
		return
	}
	f.writeLine("ip:")
	if len(p.proxies) > 0 {
		f.writeLine("  trusted_proxies: [%s]", quoteNetworks(p.proxies))
	}
	for _, reason := range reasons {
		f.writeComment("  ", "%s", reason)
	}
	if len(addresses) > 0 {
		f.writeLine("  exempt: [%s]", quoteAll(addresses))
	}
	if w.none == "" {
		f.writeLine("  fixed: {limit: %d, window: 1s, mode: %s}", w.fixed, m)
		f.writeLine("  sliding: {limit: %d, window: 60s, mode: %s}", w.sliding, m)
	}
}
