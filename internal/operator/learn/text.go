package learn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// quote writes a text as YAML. JSON is YAML, and its callers pass only text that has been checked to be plain ASCII
// (isName, isPlain) or is a constant of this package.
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

func quoteNetworks(networks []netip.Prefix) string {
	var all []string
	for _, n := range networks {
		all = append(all, n.String())
	}
	return quoteAll(all)
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

func (o *Outcome) summaryLines(p *Proposal) []string {
	r := o.Replay
	denied := int64(r.Denied.Total())
	all := []string{fmt.Sprintf("Enforced on this log: %s would have been hot, and %d looked so because of a loop. "+
		"%s of %s requests would have been denied (%.2f %%), %s of them by windows per client.",
		formatCount(int64(o.Hot), "key", "keys"), o.Loops, replay.Grouped(denied), replay.Grouped(r.Requests),
		100*float64(denied)/float64(max(r.Requests, 1)), replay.Grouped(int64(r.Denied.OfClient())))}
	if len(o.Hardest) > 0 {
		var list []string
		for _, d := range o.Hardest {
			list = append(list, fmt.Sprintf("%s (%s requests)", replay.Fit(replay.Printable(d.Client.String()), 40),
				replay.Grouped(d.Denied)))
		}
		all = append(all, "That is more than a tenth of all requests. Most of them are by "+strings.Join(list, ", ")+
			": check who that is before you enforce anything.")
	}
	if p.hasLimits() {
		all = append(all, fmt.Sprintf("With half the limits of hot keys: %s would have been denied.",
			formatCount(o.DeniedHarder, "request", "requests")))
	}
	all = append(all, fmt.Sprintf("Clients denied a request at least once: %s of %s ordinary ones (%s by windows "+
		"per client), and %s. Of the %s requests of clients that are no loops or scanners, windows per client would "+
		"have denied %s.", replay.Grouped(o.Hurt), replay.Grouped(o.Ordinary), replay.Grouped(o.HurtByIP),
		formatCount(o.Stopped, "loop or scanner", "loops and scanners"), replay.Grouped(o.Usual),
		replay.Grouped(o.UsualByIP)))
	if list := formatKeys(r.Hot); list != "" {
		by := ", by many clients"
		if p.proxied != "" {
			by = ""
		}
		all = append(all, "Hot"+by+": "+list+".")
	}
	if len(p.wanted) > 0 {
		all = append(all, "Wanted most: "+strings.Join(p.wanted, ", ")+".")
	}
	hot := map[hottype.Key]bool{}
	for _, s := range r.Hot {
		hot[s.Key] = true
	}
	loops := slices.DeleteFunc(slices.Clone(r.Loops), func(s replay.Span) bool { return hot[s.Key] })
	if list := formatKeys(loops); list != "" {
		all = append(all, "Requested by one or a few clients again and again: "+list+".")
	}
	for _, k := range [...]kind{loop, scanner} {
		var list []string
		for _, d := range p.clientsOfKind(k) {
			list = append(list, d.String())
		}
		if len(list) > 0 {
			all = append(all, fmt.Sprintf("Busiest %s: %s.", k, strings.Join(list, ", ")))
		}
	}
	_, machines := p.exemptMachines()
	all = append(all, machines...)
	return append(all, "All limits are in shadow mode: they deny nothing until you change that.")
}

func (p *Proposal) Write(w io.Writer) error {
	var f file
	census := p.visitors.countKinds()
	for _, s := range p.Read.Sources {
		f.writeLine("%s", s.Summary())
	}
	f.writeLine("%s, %s: %s", formatCount(p.Read.Requests, "request", "requests"),
		formatCount(int64(len(p.visitors.all)), "client", "clients"), formatKinds(census))
	for _, r := range p.rules {
		what := "nothing stands out yet"
		if r.hasViralValues() {
			what = formatCount(int64(r.viral), "value", "values") + " went viral"
		}
		f.writeLine("rule %s: %s by %s; hot from %d in %d s; %s", r.name, r.at.pattern,
			strings.Join(r.paramNames(), ", "), r.requests, r.window, what)
	}
	if len(p.rules) == 0 {
		f.writeLine("no path has a parameter whose values many clients want at a time: everything is watched, " +
			"nothing is limited")
	}
	for _, line := range append(p.listCaveats(), p.Outcome.summaryLines(p)...) {
		f.writeLine("%s", line)
	}
	if _, err := io.WriteString(w, f.String()); err != nil {
		return fmt.Errorf("learn: writing: %w", err)
	}
	return nil
}

func formatKinds(census [kinds]int64) string {
	var all []string
	for k, n := range census {
		if n > 0 {
			all = append(all, formatCount(n, kindNames[k][0], kindNames[k][1]))
		}
	}
	return strings.Join(all, ", ")
}

// formatCount writes the number of things with their name.
func formatCount(n int64, thing, things string) string {
	if n == 1 {
		return "1 " + thing
	}
	return replay.Grouped(n) + " " + things
}

// formatEstimate writes a number that may come from a sample.
func formatEstimate(n float64) string {
	if n > maxValues {
		return "about " + replay.Grouped(int64(n))
	}
	return replay.Grouped(int64(n))
}

func formatSpan(d time.Duration) string {
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

// formatKeys lists the keys of spans, the keys with the highest rate first.
func formatKeys(spans []replay.Span) string {
	peaks := map[hottype.Key]float64{}
	for _, s := range spans {
		peaks[s.Key] = max(peaks[s.Key], s.PeakRate)
	}
	keys := slices.SortedFunc(maps.Keys(peaks), func(a, b hottype.Key) int {
		return cmp.Or(cmp.Compare(peaks[b], peaks[a]), cmp.Compare(a, b))
	})
	var list []string
	for _, k := range keys[:min(10, len(keys))] {
		list = append(list, replay.Fit(replay.Printable(hideSecrets(string(k))), 100))
	}
	if more := len(keys) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

func countKeys(spans []replay.Span) int {
	keys := map[hottype.Key]bool{}
	for _, s := range spans {
		keys[s.Key] = true
	}
	return len(keys)
}

// loginExample is a rule that a log cannot propose, because a log does not show which requests are attempts.
const loginExample = "- {name: login, match: {path: /login, methods: [POST]}, per_client: {fixed: {limit: 10, window: 1m}}}"
