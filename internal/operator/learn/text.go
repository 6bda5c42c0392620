package learn

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// quote writes a text as YAML. JSON is YAML, and its callers pass only text that has been
// checked to be plain ASCII (isName, isPlain) or is a constant of this package.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string has a JSON form
	}
	return string(b)
}

func quoteAll(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = quote(s)
	}
	return strings.Join(quoted, ", ")
}

func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func (o *Outcome) lines(p *Proposal) []string {
	r := o.Replay
	all := []string{fmt.Sprintf("On this log, enforced: keys that were hot: %d; that looked so because of a loop: %d; "+
		"requests denied: %s (%.2f %%), of these %s by windows of clients.", o.Hot, o.Loops,
		replay.Grouped(int64(r.Denied.Total())), 100*float64(r.Denied.Total())/float64(max(r.Requests, 1)),
		replay.Grouped(int64(r.Denied.OfClient())))}
	if len(p.rules) > 0 {
		all = append(all, fmt.Sprintf("At half the limits of hot keys: %s denied.", replay.Grouped(o.DeniedHarder)))
	}
	all = append(all, fmt.Sprintf("Ordinary clients that would have been denied a request: %s of %s "+
		"(%s by windows of clients); loops and scanners: %s.", replay.Grouped(o.Hurt), replay.Grouped(o.Ordinary),
		replay.Grouped(o.HurtByIP), replay.Grouped(o.Stopped)))
	for _, k := range [...]kind{loop, scanner} {
		if list := p.visitors.busiest(k); list != "" {
			all = append(all, fmt.Sprintf("Busiest %s: %s.", k, list))
		}
	}
	return append(all, "All limits are in shadow mode: they deny nothing until you change that.")
}

func (p *Proposal) Write(w io.Writer) error {
	var f file
	census := p.visitors.census()
	f.line("%s requests, %s clients: %s", replay.Grouped(p.Read.Requests), replay.Grouped(int64(len(p.visitors.all))),
		kindsOf(census))
	for _, r := range p.rules {
		what := "nothing stands out yet"
		if r.found() {
			what = fmt.Sprintf("%d values went viral", r.viral)
		}
		f.line("rule %s: %s by %s; hot from %d in %d s; %s", r.name, r.at.pattern, strings.Join(r.names(), ", "),
			r.requests, r.window, what)
	}
	if len(p.rules) == 0 {
		f.line("no path has a parameter whose values many clients want at a time: everything is watched, nothing limited")
	}
	for _, line := range append(p.caveats(), p.Outcome.lines(p)...) {
		f.line("%s", line)
	}
	if _, err := io.WriteString(w, f.String()); err != nil {
		return fmt.Errorf("learn: writing: %w", err)
	}
	return nil
}

func kindsOf(census [kinds]int64) string {
	var all []string
	for k, n := range census {
		if n > 0 {
			all = append(all, fmt.Sprintf("%s %s", replay.Grouped(n), kind(k)))
		}
	}
	return strings.Join(all, ", ")
}

// about writes a number that may come from a sample.
func about(n float64) string {
	if n > maxValues {
		return "about " + replay.Grouped(int64(n))
	}
	return replay.Grouped(int64(n))
}

func spanOf(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f seconds", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f hours", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// Outcome is what a proposal would have done to the logs that it was learned from
// if its limits were enforced. In shadow mode it denies nothing.
type Outcome struct {
	// Replay is the whole report.
	Replay *replay.Report
	// Hot and Loops are how many different keys were hot, and looked so because of
	// one or a few clients.
	Hot, Loops int
	// Ordinary is how many clients are people or addresses that many share. Hurt of
	// them were denied a request at least once, HurtByIP of them by windows of
	// clients.
	Ordinary, Hurt, HurtByIP int64
	// Stopped is how many loops and scanners were denied a request.
	Stopped int64
	// DeniedHarder is how many requests half the limits would have denied.
	DeniedHarder int64
}

func (p *Proposal) tryOut(ctx context.Context, l *learner) (Outcome, error) {
	var o Outcome
	census := p.visitors.census()
	o.Ordinary = census[person] + census[sharedAddress]
	whole, hurt, err := p.enforced(ctx, l, 1)
	if err != nil {
		return o, err
	}
	o.Replay, o.Hurt, o.HurtByIP, o.Stopped = whole, hurt.ordinary, hurt.byIP, hurt.stopped
	o.Hot, o.Loops = differentKeys(whole.Hot), differentKeys(whole.Loops)
	if len(p.rules) == 0 {
		return o, nil
	}
	half, _, err := p.enforced(ctx, l, 2)
	if err != nil {
		return o, err
	}
	o.DeniedHarder = int64(half.Denied.Total())
	return o, nil
}

type deniedClients struct{ ordinary, byIP, stopped int64 }

func (p *Proposal) enforced(ctx context.Context, l *learner, divide int64) (*replay.Report, deniedClients, error) {
	var h deniedClients
	set, err := rules.Parse("proposal", []byte(p.text(enforce, divide)))
	if err != nil {
		return nil, h, fmt.Errorf("learn: the proposal is no configuration, which is a mistake of this program: %w",
			err)
	}
	sources, err := l.logs()
	if err != nil {
		return nil, h, err
	}
	type denied struct{ any, byIP bool }
	clients := map[hottype.Client]denied{}
	cfg := l.replayConfig()
	cfg.Rules = set
	cfg.Verdict = func(s *replay.Seen, v *hottype.Verdict) {
		if v.Allowed {
			return
		}
		d := clients[s.Request.Client]
		d.any = true
		d.byIP = d.byIP || v.Reason.Info().OfClient
		clients[s.Request.Client] = d
	}
	rep, err := replay.Run(ctx, cfg, sources...)
	if err != nil {
		return nil, h, fmt.Errorf("learn: %w", err)
	}
	for c, d := range clients {
		switch k := p.visitors.kindOf(p.visitors.all[c]); {
		case isOrdinary(k):
			h.ordinary++
			h.byIP += one(d.byIP)
		case k == loop || k == scanner:
			h.stopped++
		}
	}
	return rep, h, nil
}

func differentKeys(spans []replay.Span) int {
	keys := map[hottype.Key]bool{}
	for _, s := range spans {
		keys[s.Key] = true
	}
	return len(keys)
}
