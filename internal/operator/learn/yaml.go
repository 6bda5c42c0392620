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
	if _, err := io.WriteString(w, p.head()+p.text(shadow, 1)); err != nil {
		return fmt.Errorf("learn: writing the configuration: %w", err)
	}
	return nil
}

type file struct{ strings.Builder }

func (f *file) line(format string, args ...any) { fmt.Fprintf(f, format+"\n", args...) }

// comment writes a comment. Its arguments may come from a log, so that the text is made printable, which also removes
// line ends.
func (f *file) comment(indent, format string, args ...any) {
	for _, line := range wrap(replay.Printable(fmt.Sprintf(format, args...)), 110-len(indent)) {
		f.line("%s# %s", indent, line)
	}
}

// head returns the header of the file: the logs it was learned from and the effect it would have had.
func (p *Proposal) head() string {
	var f file
	r, o := p.Read, &p.Outcome
	f.comment("", "Learned by `%s` from %s by %s, %s to %s UTC.", p.by, counted(r.Requests, "request", "requests"),
		counted(int64(len(p.visitors.all)), "client", "clients"), replay.Clock(r.First), replay.Clock(r.Last))
	if hours := p.clock.span().Hours(); hours < 7*24 {
		f.comment("", "It is a sketch of %s, not of a usual week: learn again from more.", spanOf(p.clock.span()))
	}
	for _, line := range p.caveats() {
		f.comment("", "%s", line)
	}
	f.line("#")
	for _, line := range o.lines(p) {
		f.comment("", "%s", line)
	}
	f.line("")
	return f.String()
}

func (p *Proposal) caveats() (all []string) {
	all = append(all, p.notes...)
	if p.squeezed != "" {
		all = append(all, "No rule is certain: "+p.squeezed+".")
	}
	if p.proxied != "" {
		all = append(all, "Clients are not known: "+p.proxied+". So min_clients is 0, which takes a loop for many, "+
			"and there are no windows per client. Log the client's address (ip.trusted_proxies, X-Forwarded-For) and learn again.")
	}
	all = append(all, p.doubts()...)
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

// The numbers below which a log is too small for certain rules.
const (
	smallRequests = 2000
	smallClients  = 100
)

func (p *Proposal) doubts() (all []string) {
	if p.cut != nil {
		all = append(all, fmt.Sprintf("The log could not be read to its end (%v): this is learned from what could be read.",
			p.cut))
	}
	if n, clients := p.Read.Requests, len(p.visitors.all); n < smallRequests || clients < smallClients {
		all = append(all, fmt.Sprintf("The log is small: %s requests by %s clients show little of what is usual.",
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

// text returns the configuration, with the limits divided by divide, because a dry run also tries lower limits.
func (p *Proposal) text(m mode, divide int64) string {
	var f file
	f.line("rules:")
	for _, r := range p.rules {
		p.pages(&f, r)
		p.rule(&f, r, m, divide)
	}
	p.catchAll(&f)
	p.windows(&f, m)
	return f.String()
}

// pages writes rules of their own for pages that a pattern would take for values.
func (p *Proposal) pages(f *file, r *proposed) {
	for i, m := range r.pages {
		f.line("  - name: %s_page_%d", r.name, i+1)
		f.comment("    ", "A page, not a value of %s: watched as everything else is, and never limited.", r.at.pattern)
		f.line("    match: {path: %s}", quote(string(m.key)))
		f.line(`    params: ["*"]`)
		f.line("    ignore: [%s]", quoteAll(globsOf(p.ignored)))
		f.line("    hot: %s", p.restHot())
	}
}

func (p *Proposal) rule(f *file, r *proposed, m mode, divide int64) {
	f.line("  - name: %s", r.name)
	f.line("    match: {path: %s}", quote(r.at.pattern))
	p.parameters(f, r)
	f.line("    params: [%s]", quoteAll(r.names()))
	t := &r.threshold
	who := "Most requests for a value in %d s"
	if p.minClients > 0 {
		who += fmt.Sprintf(", each client counted for at most 1/%d of the threshold", p.minClients)
	}
	if t.found() {
		f.comment("    ", who+": %s. The threshold is in the gap.", t.window, gap(t))
	} else {
		f.comment("    ", who+": %s. Nothing stands out, so the threshold is well above all of them.", t.window, gap(t))
	}
	surge := ""
	if floor := p.surgeFloor(t); floor > 0 {
		f.comment("    ", "A value that grows eightfold is hot from %d in %d s on: more than any ordinary value had.",
			floor, t.window)
		surge = fmt.Sprintf(", surge: 8, min_rate: %d/%ds", floor, t.window)
	}
	f.line("    hot: {rate: %d/%ds%s, window: %ds, min_clients: %d}", t.requests, t.window, surge, t.window,
		p.minClients)
	rate, burst, served := r.guess()
	if served > 0 {
		f.comment("    ", "GUESS: a log does not know what the service bears. It served %d in 5 s for one value; this "+
			"is at least twice that.", served)
	} else {
		f.comment("    ", "GUESS: a log does not know what the service bears, and no value was requested often.")
	}
	f.comment("    ", "Measure the service, lower the limit, watch what it would deny, then take mode: enforce.")
	f.line("    limit: {rate: %d/s, burst: %d, mode: %s}", max(1, rate/divide), max(1, burst/divide), m)
}

func (p *Proposal) parameters(f *file, r *proposed) {
	for _, t := range r.params {
		v := t.values
		top, others := "", ""
		if v.topShare() >= 0.01 {
			top = fmt.Sprintf(", %.0f %% of them for one value", 100*v.topShare())
		}
		if v.repeats > 0 {
			others = fmt.Sprintf("; the next request for a value is another client's in %.0f %%", 100*v.sharedness())
		}
		f.comment("    ", "%s: %s values in %s requests%s%s.", t.name, about(v.distinct.count()),
			replay.Grouped(v.requests), top, others)
	}
	for _, t := range r.at.params {
		if t.why != "" {
			f.comment("    ", "Not %s: %s.", t.name, t.why)
		}
	}
}

// surgeFloor returns the minimum number of requests in the window at which a surge is significant, above the ordinary
// peaks and below the threshold, or 0 if there is no such number.
func (p *Proposal) surgeFloor(t *threshold) int64 {
	if !t.found() || len(t.below) == 0 {
		return 0
	}
	floor := max(leastThreshold, int64(1.25*t.below[0])+1)
	if 5*floor > 4*t.requests {
		return 0
	}
	return floor
}

// The lowest limit that is proposed. Lower limits deny readers of a page that few people request, and a service that
// cannot serve as many has other needs.
const (
	leastRate  = 2 // a second
	leastBurst = 30
)

// guess returns a limit for one value: at least twice the requests that the log shows to have been served.
func (r *proposed) guess() (rate, burst, served int64) {
	asked := int64(0)
	for _, k := range r.keys {
		served, asked = max(served, k.asked[0]), max(asked, k.asked[r.index])
	}
	rate = max(leastRate, (2*asked+r.window-1)/r.window, (r.requests+r.window-1)/r.window)
	return rate, max(2*served, rate, leastBurst), served
}

func (p *Proposal) catchAll(f *file) {
	f.comment("  ", "Everything else is watched and never limited: what becomes hot here may want a rule of its own.")
	f.line(`  - name: "*"`)
	f.line(`    params: ["*"]`)
	f.comment("    ", "Noise, which gives one page many keys. utm_* to _ are what links and libraries usually bring.")
	for _, i := range p.ignored {
		f.comment("    ", "%s: %s requests; %s.", i.glob, replay.Grouped(i.requests), i.why)
	}
	f.line("    ignore: [%s]", quoteAll(globsOf(p.ignored)))
	t := &p.rest
	switch {
	case p.squeezed != "":
		f.comment("    ", "GUESS: the log says nothing about rates.")
	case t.found():
		f.comment("    ", "Most requests for one of them in %d s: %s. The threshold is in the gap.", t.window, gap(t))
	default:
		f.comment("    ", "The most for one of them in %d s: %.0f. This is twice that, and at least "+
			"10 a second.", windows[0], p.restMost)
	}
	f.line("    hot: %s", p.restHot())
}

// restHot returns the criteria of keys without a rule.
func (p *Proposal) restHot() string {
	t := &p.rest
	switch {
	case p.squeezed != "":
		return fmt.Sprintf("{rate: 50, window: %ds, min_clients: %d}", windows[0], p.minClients)
	case t.found():
		return fmt.Sprintf("{rate: %d/%ds, window: %ds, min_clients: %d}", t.requests, t.window, t.window, p.minClients)
	}
	rate := max(10, int64(2*p.restMost)/windows[0])
	return fmt.Sprintf("{rate: %d, window: %ds, min_clients: %d}", rate, windows[0], p.minClients)
}

func (p *Proposal) windows(f *file, m mode) {
	w := &p.perIP
	addresses, reasons := p.machines()
	if w.none != "" {
		f.comment("", "No windows per client: %s.", w.none)
	} else {
		f.comment("", "%s ordinary clients: %s sent at most %d requests in a second and %d in a minute. Above "+
			"these windows: %d of them, and %d of %d loops and scanners.", replay.Grouped(int64(w.ordinary)), w.of,
			w.top1s, w.top60s, w.above, w.stopped, w.loops)
		if w.widened {
			f.comment("", "Widened: narrower windows deny more than 1 in %d requests of clients that are no loops.",
				usualDenied)
		}
		if w.guess != "" {
			f.comment("", "GUESS: %s.", w.guess)
		}
	}
	if w.none != "" && len(addresses) == 0 {
		return
	}
	f.line("ip:")
	for _, reason := range reasons {
		f.comment("  ", "%s", reason)
	}
	if len(addresses) > 0 {
		f.line("  exempt: [%s]", quoteAll(addresses))
	}
	if w.none == "" {
		f.line("  fixed: {limit: %d, window: 1s, mode: %s}", w.fixed, m)
		f.line("  sliding: {limit: %d, window: 60s, mode: %s}", w.sliding, m)
	}
}
