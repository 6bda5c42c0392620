// Package sites generates access logs of sites whose truth is known, and judges the proposals of package learn by it.
// The test of package learn judges a few sites of each class, and bench/sites many of them, as a table.
//
// A seed decides all that real sites differ in: the names of paths and parameters, the number of values and clients,
// rates, bursts, the span of the log, noise, user agents, assets and referers. The same class and seed lead to the same
// log.
package sites

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

type Site struct {
	Class string
	Seed  uint64
	Log   []byte // in the combined format
	Truth Truth
}

// Truth holds the facts that a proposal states, rightly or wrongly.
type Truth struct {
	// Topic is the target of a usual page. Param is the name of the parameter that decides which page it is, "path" if
	// a segment of the path does, or "" if no parameter deserves a rule.
	Topic, Param string
	// Fine are further parameters that may have a rule.
	Fine []string
	// Noise are the parameters that must not be part of a key.
	Noise []string
	// Viral are the targets of values that a limit is for: many clients request them at a time, far more often than any
	// other value.
	Viral []string
	// Wanted are the targets of values that most clients request without a burst: a person should read their names.
	// Popular are the targets of values that may be named.
	Wanted, Popular []string
	// Loops, Scanners and Probes are addresses. Steady are addresses that may be called a loop or a probe.
	Loops, Scanners, Probes, Steady []string
	// Proxied is true if the addresses of the log belong to a proxy or CDN.
	Proxied bool
	// Ordinary holds the highest rates of each address of an ordinary client.
	Ordinary map[string]Peaks
}

// Peaks are numbers of requests.
type Peaks struct {
	Second, Minute int
}

// classes are the kinds of sites, in the order of the table.
var classes = []struct {
	name string
	play func(*builder)
}{
	{"catalogue", catalogue},
	{"forum", forum},
	{"video rooms", videoRooms},
	{"ads behind a CDN", adsBehindCDN},
	{"telemetry", telemetry},
	{"wiki", wiki},
	{"balancer's probes", balancerProbes},
	{"robots only", robotsOnly},
	{"one scanner", oneScanner},
	{"attack from the start", attackFromStart},
}

// Classes returns the names of all classes.
func Classes() (names []string) {
	for _, c := range classes {
		names = append(names, c.name)
	}
	return names
}

// Generate returns the site of a class and a seed. It panics if the class does not exist.
func Generate(class string, seed uint64) *Site {
	i := slices.Index(Classes(), class)
	b := &builder{
		Rand: rand.New(rand.NewPCG(seed, uint64(i))), Truth: Truth{Ordinary: map[string]Peaks{}},
		ordinary: map[string][]int{},
	}
	b.assets, b.referers = b.IntN(4) > 0, b.IntN(5) > 0
	b.style = agentStyle(b.IntN(int(agentStyles)))
	b.shared = max(0, b.IntN(12)-6)
	classes[i].play(b)
	return &Site{Class: class, Seed: seed, Log: b.finish(), Truth: b.Truth}
}

// began is the unix second at which all logs begin.
const began = 1_700_000_000

// finish sorts the requests, measures the ordinary clients and returns the log.
func (b *builder) finish() []byte {
	slices.SortStableFunc(b.requests, func(x, y request) int { return int(x.second) - int(y.second) })
	var log bytes.Buffer
	for _, r := range b.requests {
		at := time.Unix(began+int64(r.second), 0).UTC().Format("02/Jan/2006:15:04:05 +0000")
		fmt.Fprintf(&log, "%s - - [%s] \"%s %s HTTP/1.1\" %d %d \"%s\" \"%s\"\n", r.client, at, r.method, r.target,
			r.status, 200+len(r.target), r.referer, r.agent)
	}
	for address, seconds := range b.ordinary {
		slices.Sort(seconds)
		var p Peaks
		for i, first := range seconds {
			j := i
			for j < len(seconds) && seconds[j] < first+60 {
				if seconds[j] == first {
					p.Second = max(p.Second, j-i+1)
				}
				j++
			}
			p.Minute = max(p.Minute, j-i)
		}
		b.Ordinary[address] = p
	}
	return log.Bytes()
}
