package learn

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// monitorWords occur in the user agents of balancers and monitors.
var monitorWords = []string{
	"healthcheck", "health-check", "health check", "kube-probe", "monitor", "uptime", "pingdom", "jetmon", "statuscake",
	"nagios", "check_http", "zabbix", "site24x7", "googlehc", "elb-", "haproxy", "consul", "blackbox", "prometheus",
	"gatus", "checkly", "hetrix", "icinga", "sensu", "probe", "internal dummy connection",
}

// A probe requests one page, during most of the log, always at the same rate.
const (
	probeRequests = 30
	probeSeconds  = 30
	probeShare    = 0.9
	probeSteady   = 2.0 // the busiest minute of a monitor, as a multiple of the mean
	maxDispersion = 0.4 // of the requests of other probes; it is 1 for requests at random times
)

// isProbe reports whether a client is the probe of a balancer or a monitor. Its agent alone does not
// show it, because any client can send it, and many probes have the agent of an ordinary tool or an empty agent: their
// interval is steady, and their page has no parameters and no Referer.
func (v *visitors) isProbe(c *visitor) bool {
	path, top := c.paths.mostFrequent()
	if c.requests < probeRequests || c.last-c.first < probeSeconds || 2*(c.last-c.first) < v.last-v.first ||
		float64(top) < probeShare*float64(c.requests) {
		return false
	}
	if c.monitor {
		mean := 60 * float64(c.requests) / float64(max(c.last-c.first, 60))
		return float64(c.peak60s) <= probeSteady*mean+10
	}
	target, _ := c.targets.mostFrequent()
	return target == path && !c.referer && c.rhythm.dispersion(c.requests, c.last-c.first) <= maxDispersion
}

// rhythm measures how regular the requests of a client are, with times in seconds.
type rhythm struct {
	gapSquares   int64 // sum of the squares of the times between two requests
	countSquares int64 // sum of the squares of the requests of each second
	inSecond     int64 // requests of the current second
}

// add records a request that comes gap seconds after the last one.
func (r *rhythm) add(gap int64) {
	if gap > 0 {
		r.inSecond = 0
	}
	r.gapSquares += gap * gap
	r.countSquares += 2*r.inSecond + 1
	r.inSecond++
}

// dispersion returns the variance of n requests within a time, relative to the variance of requests at random: of the
// requests of each second if a second has one or more, or of the times between them.
func (r *rhythm) dispersion(n, seconds int64) float64 {
	mean := float64(n) / float64(seconds+1)
	if mean >= 1 {
		return float64(r.countSquares)/float64(seconds+1)/mean - mean
	}
	gap := float64(seconds) / float64(max(n-1, 1))
	return float64(r.gapSquares)/float64(max(n-1, 1))/(gap*gap) - 1
}

// hosts finds the names of the site, by the Referer of its assets, and the clients that name one of them as their own
// in their user agent, as the programs of a site do that call it.
type hosts struct {
	referers map[string]int64
	total    int64
	agents   map[string]map[hottype.Client]int64 // by the names in user agents with a URL
}

const (
	maxHosts   = 2000
	maxCallers = 8     // clients for each name
	ownShare   = 0.005 // share of the Referers of assets that make a host a name of the site
	selfShare  = 0.8   // share of a client's requests that are for one path
)

func newHosts() hosts {
	return hosts{referers: map[string]int64{}, agents: map[string]map[hottype.Client]int64{}}
}

func (h *hosts) add(s *replay.Seen, agent string, asset bool) {
	if asset {
		if host := hostOf(s.Request.Header.Get("Referer")); host != "" {
			h.total++
			if _, ok := h.referers[host]; ok || len(h.referers) < maxHosts {
				h.referers[strings.Clone(host)]++
			}
		}
	}
	at := strings.Index(agent, "http")
	if at < 0 {
		return
	}
	host := hostOf(strings.TrimRight(agent[at:], "); "))
	if host == "" {
		return
	}
	callers := h.agents[host]
	if callers == nil {
		if len(h.agents) >= maxHosts {
			return
		}
		callers = map[hottype.Client]int64{}
		h.agents[strings.Clone(host)] = callers
	}
	c := s.Request.Client
	if _, ok := callers[c]; ok || len(callers) < maxCallers {
		callers[hottype.Client{Addr: c.Addr, Name: strings.Clone(c.Name)}]++
	}
}

// hostOf returns the host of a URL in lower case, without www.
func hostOf(text string) string {
	if text == "" || text == "-" || len(text) > 512 {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(strings.ToLower(u.Hostname()), "www.")
}

// findSelf marks the addresses from which the site calls itself.
func (v *visitors) findSelf() {
	own := map[hottype.Client]int64{}
	for host, callers := range v.hosts.agents {
		if float64(v.hosts.referers[host]) < max(ownShare*float64(v.hosts.total), 5) {
			continue
		}
		for client, n := range callers {
			own[client] += n
		}
	}
	public := false
	for client := range v.all {
		public = public || client.Addr.IsValid() && !client.Addr.IsPrivate() && !client.Addr.IsLoopback()
	}
	for client, c := range v.all {
		_, top := c.paths.mostFrequent()
		calls := own[client] >= probeRequests && float64(top) >= selfShare*float64(c.requests)
		c.self = calls || public && client.Addr.IsLoopback() && !c.isRefused()
	}
	v.hosts = newHosts()
}

// described is a client whose requests the file describes. Its texts are taken from one of its usual requests.
type described struct {
	*visitor
	name         string
	client       hottype.Client
	path, target uint64 // hashes of the most frequent path and target
	usual, agent string
	ofAll        bool // whether usual includes the query
}

// describe holds the number of clients of each kind that are described.
var describe = [kinds]int{loop: 20, scanner: 5, probe: 20, self: 5}

// busiestClients returns the clients to describe: of each kind the clients with the highest rate in a minute.
func (v *visitors) busiestClients() map[hottype.Client]*described {
	var byKind [kinds][]*described
	for client, c := range v.all {
		if k := v.kindOf(c); describe[k] > 0 {
			d := &described{visitor: c, name: client.String(), client: client}
			d.path, _ = c.paths.mostFrequent()
			var n uint32
			d.target, n = c.targets.mostFrequent()
			d.ofAll = float64(n) >= loopShare*float64(c.requests)
			byKind[k] = append(byKind[k], d)
		}
	}
	all := map[hottype.Client]*described{}
	for k, list := range byKind {
		slices.SortFunc(list, compareBusy)
		for _, d := range list[:min(describe[k], len(list))] {
			all[d.client] = d
		}
	}
	return all
}

func compareBusy(a, b *described) int {
	return cmp.Or(cmp.Compare(b.peak60s, a.peak60s), cmp.Compare(b.requests, a.requests),
		cmp.Compare(a.name, b.name))
}

// add records the texts of a usual request of a client that is described.
func (d *described) add(s *replay.Seen) {
	if d == nil || d.usual != "" {
		return
	}
	path, _ := s.Request.SplitTarget()
	switch {
	case d.ofAll && hash(s.Request.Target) == d.target:
		d.usual = strings.Clone(s.Request.Target)
	case !d.ofAll && hash(path) == d.path:
		d.usual = strings.Clone(path)
	default:
		return
	}
	d.agent = strings.Clone(s.Request.Header.Get("User-Agent"))
}

func (p *Proposal) clientsOfKind(k kind) (list []*described) {
	for _, d := range p.clients {
		if p.visitors.kindOf(d.visitor) == k {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, compareBusy)
	return list
}

func (d *described) String() string {
	text := fmt.Sprintf("%s (%s requests, up to %s in a minute", replay.Fit(replay.Printable(d.name), 40),
		replay.Grouped(d.requests), replay.Grouped(int64(d.peak60s)))
	if d.usual != "" {
		text += ", most for " + replay.Fit(replay.Printable(hideSecrets(d.usual)), 100)
	}
	return text + ")"
}

// exemptMachines returns the addresses of ip.exempt, and the reasons, also for machines without an address.
func (p *Proposal) exemptMachines() (addresses, reasons []string) {
	for _, k := range [...]kind{probe, self} {
		for _, d := range p.clientsOfKind(k) {
			what := "a probe of a balancer or monitor, always the same page at a steady rate"
			switch {
			case k == self:
				what = "the site's own server, which calls itself"
			case !d.monitor:
				what += ". Make sure that it is yours: a client that loops steadily looks the same"
			}
			reason := fmt.Sprintf("%s: %s", d, what)
			if d.agent != "" {
				reason += fmt.Sprintf("; its agent is %s", replay.Fit(replay.Printable(d.agent), 80))
			}
			if !d.client.Addr.IsValid() {
				reasons = append(reasons, reason+". It has no address that could be exempt.")
				continue
			}
			addresses, reasons = append(addresses, d.client.Addr.String()), append(reasons, reason+".")
		}
	}
	return addresses, reasons
}
