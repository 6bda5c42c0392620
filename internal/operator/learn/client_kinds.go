package learn

import (
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

type kind int

// The kinds of clients. A client that matches no other kind is a person.
const (
	person kind = iota
	// A sharedAddress has many user agents, such as the address of a company or of a mobile network.
	sharedAddress
	// A robot behaves like a program, but its user agent does not say so: it loads no assets and sends no Referer.
	robot
	// A bot says in its user agent that it is a program, by one of botWords. A client that does both is a bot.
	bot
	scanner // half of its requests or more are refused
	loop    // most of its requests are for one target
	probe   // see isProbe
	self    // see findSelf
	kinds
)

// kindNames holds the names of each kind, for one client and for several.
var kindNames = [kinds][2]string{
	{"person", "people"}, {"address that many share", "addresses that many share"}, {"robot", "robots"},
	{"bot", "bots"}, {"scanner", "scanners"}, {"loop", "loops"}, {"probe", "probes"},
	{"address of the site itself", "addresses of the site itself"},
}

func (k kind) String() string { return kindNames[k][1] }

// The thresholds that make a client one of a kind.
const (
	loopRequests    = 20   // minimum
	loopShare       = 0.75 // of them for one target; the counters undercount a little
	scannerRequests = 5
	scannerRefused  = 0.5 // of its requests got a 4xx
	sharedAgents    = 8   // user agents of one address
	robotRequests   = 20
)

type visitor struct {
	requests, refused int64

	second             int64 // the current second
	inSecond, inMinute uint32
	slots              [7]uint16 // requests of the last 60 to 70 seconds, by ten seconds
	slot               int64     // number of the newest slot
	peak1s, peak60s    uint32

	agents          [sharedAgents]uint32 // hashes; 0 is a free entry
	assets, referer bool
	bot, monitor    bool
	self            bool // the client is the site's own server
	kind            kind // by classifyAll

	first, last    int64 // seconds of its first and last request
	rhythm         rhythm
	targets, paths commonest
}

// commonest is a Misra-Gries summary: a text that most requests have is in it.
type commonest [4]struct {
	hash uint64
	n    uint32
}

type visitors struct {
	all     map[hottype.Client]*visitor
	dropped int64 // requests of clients beyond maxClients

	requests, unknown        int64
	assets, referers, agents int64 // numbers of requests that have one

	first, last int64 // seconds of the log
	hosts       hosts
}

func newVisitors() *visitors {
	return &visitors{all: make(map[hottype.Client]*visitor), hosts: newHosts()}
}

func (v *visitors) add(s *replay.Seen, asset bool) {
	r := s.Request
	v.requests++
	agent, referer := r.Header.Get("User-Agent"), r.Header.Get("Referer") != ""
	v.assets += oneIf(asset)
	v.referers += oneIf(referer)
	v.agents += oneIf(agent != "")
	if r.Client.IsZero() {
		v.unknown++
		return
	}
	c := v.all[r.Client]
	if c == nil {
		if len(v.all) >= maxClients {
			v.dropped++
			return
		}
		c = &visitor{}
		v.all[hottype.Client{Addr: r.Client.Addr, Name: strings.Clone(r.Client.Name)}] = c
	}
	second := s.At.Unix()
	if v.first == 0 {
		v.first = second
	}
	v.last = max(v.last, second)
	if c.requests == 0 {
		c.first, c.last = second, second
	}
	c.rhythm.add(second - c.last)
	c.last = second
	v.hosts.add(s, agent, asset)
	c.requests++
	c.refused += oneIf(s.Status >= 400 && s.Status < 500)
	c.assets, c.referer = c.assets || asset, c.referer || referer
	c.updatePeaks(second)
	c.addAgent(agent)
	path, _ := r.SplitTarget()
	c.targets.add(hash(r.Target))
	c.paths.add(hash(path))
}

// updatePeaks counts the request in its second and in its minute, and raises the peaks. A minute is up to 70 seconds
// here, so that the peak is never below the true peak.
func (v *visitor) updatePeaks(second int64) {
	if second != v.second {
		v.second, v.inSecond = second, 0
	}
	v.inSecond++
	v.peak1s = max(v.peak1s, v.inSecond)
	now := second / 10
	for steps := min(now-v.slot, int64(len(v.slots))); steps > 0; steps-- {
		v.slots[(now-steps+1)%int64(len(v.slots))] = 0
	}
	v.slot = now
	if here := &v.slots[now%int64(len(v.slots))]; *here < 1<<16-1 {
		*here++
	}
	v.inMinute = 0
	for _, n := range v.slots {
		v.inMinute += uint32(n)
	}
	v.peak60s = max(v.peak60s, v.inMinute)
}

func (v *visitor) addAgent(name string) {
	if name == "" {
		return
	}
	h := uint32(hash(name)) | 1
	for i := range v.agents {
		if v.agents[i] == h {
			return
		}
		if v.agents[i] == 0 {
			v.agents[i] = h
			v.bot = v.bot || containsAny(name, botWords)
			v.monitor = v.monitor || containsAny(name, monitorWords)
			return
		}
	}
}

func (c *commonest) add(h uint64) {
	free := -1
	for i := range c {
		if t := &c[i]; t.n == 0 {
			free = i
		} else if t.hash == h {
			t.n++
			return
		}
	}
	if free >= 0 {
		c[free].hash, c[free].n = h, 1
		return
	}
	for i := range c {
		c[i].n--
	}
}

// mostFrequent returns the hash of the commonest text, and how often it was counted, which is never too high.
func (c *commonest) mostFrequent() (hash uint64, n uint32) {
	for _, t := range c {
		if t.n > n {
			hash, n = t.hash, t.n
		}
	}
	return hash, n
}

// kindOf returns the kind of a client. A client that is not known (nil), such as one beyond maxClients, is a person.
func (v *visitors) kindOf(c *visitor) kind {
	if c == nil {
		return person
	}
	return c.kind
}

// classifyAll sets the kinds of all clients, after the last of their requests.
func (v *visitors) classifyAll() {
	v.findSelf()
	for _, c := range v.all {
		c.kind = v.classify(c)
	}
}

// classify returns the kind of a client: the first that matches, because a client may match several.
func (v *visitors) classify(c *visitor) kind {
	_, top := c.targets.mostFrequent()
	// telling is true if it means something that a client loads no assets and sends no Referer. It means nothing in a
	// log in which hardly any request has a Referer, or hardly any is for an asset. unlike is true if the client is
	// unlike a browser in this way. shared is true if all of agents is in use, which takes sharedAgents user agents.
	telling := v.referers*20 > v.requests && v.assets*20 > v.requests
	unlike := telling && c.requests >= robotRequests && !c.assets && !c.referer
	shared := c.agents[sharedAgents-1] != 0
	switch n := float64(c.requests); {
	case c.self:
		return self
	case v.isProbe(c):
		return probe
	case c.requests >= loopRequests && float64(top) >= loopShare*n && (!shared || unlike):
		return loop
	case c.isRefused():
		return scanner
	case shared && !unlike:
		return sharedAddress
	case c.bot:
		return bot
	case unlike:
		return robot
	}
	return person
}

func (v *visitor) isRefused() bool {
	return v.requests >= scannerRequests && float64(v.refused) >= scannerRefused*float64(v.requests)
}

func (v *visitors) countKinds() (clients [kinds]int64) {
	for _, c := range v.all {
		clients[v.kindOf(c)]++
	}
	return clients
}

// botWords occur in the user agents of programs. Many programs name their page with a URL.
var botWords = []string{
	"bot", "crawl", "spider", "slurp", "curl", "wget", "python", "java/", "go-http", "libwww", "feed", "rss", "monitor",
	"scan", "http://", "https://", "okhttp", "axios", "headless",
}

func containsAny(agent string, words []string) bool {
	agent = strings.ToLower(agent)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(agent, w) })
}

func oneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// hash returns FNV-1a of s, finished by canon.Mix. It is the same in every run, so that a log leads to the same
// proposal. A client that chooses values with equal hashes only makes a number in a comment smaller.
func hash(s string) uint64 { return canon.Mix(canon.FNV1a(s)) }
