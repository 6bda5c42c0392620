// Package learn reads request logs and proposes the rules of a site: the parameters that decide which page a request is
// for, the parameters that are noise, the rate from which on a value is viral, and the rates that no person reaches.
//
//	logs ──> 1 clients, paths and parameters           (client_kinds, paths)
//	     ──> 2 the values of those parameters          (values, roles)
//	     ──> 3 how many clients request one value      (peaks, threshold)
//	     ──> 4 what the proposal would have done       (outcome)
//
// Each step reads the logs again, so that memory is bounded: by the number of clients, of paths, and of parameters that
// are common enough to have a rule, and by one minute of requests. The proposal reports requests beyond a bound. Step 3
// counts under the keys of the proposed rules, with rules.Set.Match, and step 4 uses package replay.
//
// A log shows the requests. It does not show the capacity of the service, so that the limits of a proposal are guesses,
// are marked as such, and are in shadow mode.
//
// The content of a log is untrusted. It reaches the proposal only as quoted YAML or as printable text in a comment, and
// rules.Parse has read the proposal before Learn returns it.
package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// usualMinClients is the min_clients of a proposed rule, if the log has the addresses of clients.
const usualMinClients = 5

type Proposal struct {
	// Read is the report on reading the logs.
	Read *replay.Report
	// Outcome is the effect that the proposal would have had on the logs.
	Outcome Outcome

	by         string
	notes      []string
	visitors   *visitors
	clock      clock
	survey     *survey
	proxied    string // why addresses do not identify clients, or "" if they do
	squeezed   string // why the log's times are wrong, or "" if they are right
	proxies    []netip.Prefix
	minClients int
	rules      []*proposed
	ignored    []ignored // parameters that are noise at every path
	rest       threshold // of keys without a rule
	restMost   float64   // the highest score of such a key, in windows[0]
	wanted     []string  // the keys that most clients request, with their shares
	clients    map[hottype.Client]*described
	cut        error // why a log could not be read to its end
	perIP      perIP
	dropped    int64
}

type proposed struct {
	*candidate
	name string
}

func Learn(ctx context.Context, cfg Config, logs Logs) (*Proposal, error) {
	l := &learner{cfg: cfg, logs: logs}
	p := &Proposal{by: cmp.Or(cfg.By, "hotparam learn"), notes: cfg.Notes, proxies: cfg.TrustedProxies,
		visitors: newVisitors()}
	paths := newPaths()
	var err error
	p.Read, err = l.read(ctx, func(s *replay.Seen) {
		target, _ := s.Request.SplitTarget()
		asset := isAsset(target)
		p.clock.add(s.At)
		p.visitors.add(s, asset)
		if isInformative(s) && !asset {
			paths.add(s.Request, s.Status)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := checkReadable(p.Read); err != nil {
		return nil, err
	}
	p.cut = l.cut
	p.visitors.classifyAll()
	p.clients = p.visitors.busiestClients()
	p.squeezed = p.clock.faultReason()
	if err := p.learnRules(ctx, l, paths); err != nil {
		return nil, err
	}
	p.Outcome, err = p.tryOut(ctx, l)
	return p, err
}

// Rules returns the number of proposed rules, besides the catch-all.
func (p *Proposal) Rules() int { return len(p.rules) }

// isInformative reports whether parameters can be learned from a request. Requests with a status of 4xx are left out,
// because scanners request pages that do not exist.
func isInformative(s *replay.Seen) bool { return s.Status < 400 || s.Status >= 500 }

type learner struct {
	cfg  Config
	logs Logs
	pass int
	cut  error
}

func (l *learner) read(ctx context.Context, visit func(*replay.Seen)) (*replay.Report, error) {
	sources, err := l.logs()
	if err != nil {
		return nil, err
	}
	rep, err := replay.Read(ctx, l.nextPassConfig(), visit, sources...)
	if err != nil && (rep == nil || rep.Requests == 0 || ctx.Err() != nil) {
		return nil, fmt.Errorf("learn: %w", err)
	}
	l.cut = err // the lines before the error are learned from
	return rep, nil
}

func (l *learner) nextPassConfig() replay.Config {
	l.pass++
	pass := min(l.pass, Passes)
	set := rules.Default()
	set.IP.TrustedProxies = l.cfg.TrustedProxies
	cfg := replay.Config{Rules: set, Format: l.cfg.Format, Lateness: l.cfg.Lateness, MaxBuffer: l.cfg.MaxBuffer}
	if l.cfg.Progress != nil {
		cfg.Progress = func(bytes int64) { l.cfg.Progress(pass, bytes) }
	}
	return cfg
}

func (p *Proposal) learnRules(ctx context.Context, l *learner, paths *paths) error {
	// The requests of loops, scanners and probes and of the site itself do not show which pages exist.
	usual := func(s *replay.Seen) bool {
		return !isMachine(p.visitors.kindOf(p.visitors.all[s.Request.Client]))
	}
	p.survey = newSurvey(paths, max(50, p.Read.Requests/200))
	_, err := l.read(ctx, func(s *replay.Seen) {
		p.clients[s.Request.Client].add(s)
		if target, _ := s.Request.SplitTarget(); isInformative(s) && !isAsset(target) {
			p.survey.add(s, usual(s))
		}
	})
	if err != nil {
		return err
	}
	p.survey.classifyAll(p.clock.timeSpan())
	if p.proxied = p.visitors.proxyReason(p.survey); p.proxied == "" {
		p.minClients = usualMinClients
	}
	p.ignored = p.survey.findNoise(paths)
	all, rest := p.survey.selectCandidates(p.minClients), newPeaks(p.minClients)
	if err := p.survey.measurePeaks(ctx, l, all, rest, globsOf(p.ignored), usual); err != nil {
		return err
	}
	others := rest.finishScoring()
	p.dropped += rest.dropped
	byPlace, fit := map[*place][]*candidate{}, map[*candidate]bool{}
	for _, c := range all {
		p.dropped += c.peaks.dropped + c.others.dropped
		byPlace[c.at] = append(byPlace[c.at], c)
		fit[c] = c.setThreshold(p.clock.timeSpan(), p.clientsOfViral()) && p.squeezed == ""
	}
	for _, pl := range p.survey.places {
		here := byPlace[pl]
		own := slices.DeleteFunc(slices.Clone(here), func(c *candidate) bool { return !fit[c] })
		if c := bestCandidate(own, p.minClients, p.survey.requests); c != nil {
			p.rules = append(p.rules, &proposed{candidate: c})
		} else if len(here) > 0 { // the catch-all has its values
			others = append(others, slices.MaxFunc(here, compareValues).keys...)
		}
	}
	p.nameRules()
	p.perIP = p.visitors.proposeWindows(p.proxied, p.squeezed)
	err = p.listWanted(others)
	p.setRestThreshold(others, rest.seen)
	return err
}

// nameRules keeps the rules of the busiest paths, puts the narrow rules before the wide ones, and names them after
// their paths.
func (p *Proposal) nameRules() {
	slices.SortStableFunc(p.rules, func(a, b *proposed) int {
		return cmp.Or(cmp.Compare(oneIf(b.hasViralValues()), oneIf(a.hasViralValues())),
			cmp.Compare(b.at.ends, a.at.ends))
	})
	p.rules = p.rules[:min(len(p.rules), maxRules)]
	slices.SortStableFunc(p.rules, func(a, b *proposed) int { return cmp.Compare(len(a.at.wild), len(b.at.wild)) })
	taken := map[string]bool{}
	for _, r := range p.rules {
		r.name = ruleNameOf(r.at.pattern)
		for i := 2; taken[r.name]; i++ {
			r.name = fmt.Sprint(ruleNameOf(r.at.pattern), "_", i)
		}
		taken[r.name] = true
	}
}

func ruleNameOf(pattern string) string {
	var words []string
	for _, s := range strings.Split(pattern, "/") {
		if s == "" || s[0] == '{' {
			continue
		}
		words = append(words, strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
				return r
			case r >= 'A' && r <= 'Z':
				return r + 'a' - 'A'
			}
			return '_'
		}, s))
	}
	name := strings.Trim(strings.Join(words, "_"), "_")
	if name == "" {
		return "root"
	}
	if name[0] < 'a' || name[0] > 'z' {
		name = "p_" + name
	}
	return name[:min(len(name), 48)]
}

// Config holds how logs are read. The zero value is ready.
type Config struct {
	// Format, Lateness and MaxBuffer are fields of replay.Config.
	Format    accesslog.Format
	Lateness  time.Duration
	MaxBuffer int64
	// TrustedProxies are the networks of proxies whose X-Forwarded-For in the log names clients, beside loopback and
	// private networks. The proposal has them as ip.trusted_proxies.
	TrustedProxies []netip.Prefix
	// By is the command that the proposal names as its author; "" means hotparam learn. Notes are further sentences of
	// its header on how it was learned.
	By    string
	Notes []string
	// Progress, unless nil, is called with the number of the pass and the bytes that the pass has read.
	Progress func(pass int, bytes int64)
}

// Passes is the number of times that Learn reads the logs, without the replays beside them and the replays that
// widening windows needs.
const Passes = 4

// Logs opens the logs again for each pass.
type Logs func() (sources []replay.Source, err error)

// The bounds of memory. Requests beyond them are left out, and the proposal reports them.
const (
	maxClients    = 500_000
	maxNodes      = 50_000  // of the tree of paths
	maxNames      = 100_000 // names of parameters, at all paths together
	maxTracked    = 256     // parameters whose values are examined
	maxValues     = 4096    // values of one parameter that are held; more are sampled
	maxCandidates = 48      // parameters and pairs whose peaks are measured
	maxLiveKeys   = 1_000_000
	maxLiveCounts = 8_000_000
	maxRules      = 12
)

// ErrNothing is returned if the logs have no requests to learn from.
var ErrNothing = errors.New("learn: the logs have no requests")

func checkReadable(r *replay.Report) error {
	switch {
	case r.Requests > 0:
		return nil
	case r.Malformed == 0:
		return ErrNothing
	}
	first := ""
	for _, b := range r.Broken[:min(3, len(r.Broken))] {
		first += fmt.Sprintf("\n  %s:%d: %s", replay.Printable(b.Source), b.Line, replay.Printable(b.Reason))
	}
	return fmt.Errorf("learn: all %d lines are malformed; tried: %s; describe a line with --log-format, as nginx does: "+
		"'$remote_addr [$time_local] \"$request\" $status'; the first are%s", r.Malformed,
		strings.Join(accesslog.Names(), ", "), first)
}
