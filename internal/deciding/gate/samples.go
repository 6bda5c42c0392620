package gate

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
)

const (
	sampledKeys = 20   // heaviest hot keys, whose requests are sampled
	sampleOneIn = 16   // requests of a pooled decision
	sampleHalve = 2048 // samples of a key after which its counts are halved
	sampleNames = 24   // different names that are counted at a time, of each kind
	sampleBytes = 64   // of the name of a client
	sampleTop   = 5    // names in a report, of each kind
)

// samples holds the keys whose requests are sampled: by their clients, and by their spelling. A report chooses the
// keys, so that nothing is sampled without reports. The map is replaced, never changed.
type samples map[hottype.Key]*keySample

// keySample counts a part of the requests for a key by client and spelling.
type keySample struct {
	mu                          sync.Mutex // guards the fields below
	seen                        uint64
	prefixes, classes, spelling topNames
}

// topNames counts names in bounded memory, as Space-Saving does: a new name replaces the lightest and takes over its
// count (Metwally et al., 2005, https://doi.org/10.1007/978-3-540-30570-5_27).
type topNames map[string]uint64

func (h topNames) add(name string) {
	if name == "" {
		return
	}
	if _, known := h[name]; known || len(h) < sampleNames {
		h[name]++
		return
	}
	lightest, least := "", uint64(0)
	for other, n := range h {
		if lightest == "" || n < least || n == least && other < lightest {
			lightest, least = other, n
		}
	}
	delete(h, lightest)
	h[name] = least + 1
}

func (h topNames) halveCounts() {
	for name := range h {
		h[name] /= 2
	}
	maps.DeleteFunc(h, func(_ string, n uint64) bool { return n == 0 })
}

// heaviestNames returns the heaviest names, heaviest first.
func (h topNames) heaviestNames() []report.NameCount {
	list := make([]report.NameCount, 0, len(h))
	for name, n := range h {
		list = append(list, report.NameCount{Name: name, N: n})
	}
	slices.SortFunc(list, func(a, b report.NameCount) int {
		return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), sampleTop)]
}

// sampleKeys records one in sampleOneIn of the requests for hot keys.
func (g *Gate) sampleKeys(d *decision, v *verdict.Verdict) {
	if d.ticks++; d.ticks%sampleOneIn != 1 {
		return
	}
	of := g.samples.Load()
	if of == nil {
		return
	}
	for i := range d.keys {
		if k := (*of)[hottype.Key(d.matches[i].Key)]; k != nil {
			k.add(prefixOf(d.client), v.Class, d.st.set.Spelled(d.matches[i].Rule, d.req))
		}
	}
}

func (k *keySample) add(prefix, class, spelling string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen++; k.seen >= sampleHalve {
		k.seen /= 2
		k.prefixes.halveCounts()
		k.classes.halveCounts()
		k.spelling.halveCounts()
	}
	k.prefixes.add(prefix)
	k.classes.add(class)
	k.spelling.add(spelling)
}

// prefixOf returns the network of a client: the /24 of an IPv4 address, the /48 of an IPv6 address, the name of a
// client without an address, or "" if the client is unknown.
func prefixOf(c hottype.Client) string {
	if !c.Addr.IsValid() {
		return c.Name[:min(len(c.Name), sampleBytes)]
	}
	bits := 24
	if c.Addr.Is6() {
		bits = 48
	}
	return netip.PrefixFrom(c.Addr, bits).Masked().String()
}

// reportSamples returns the samples of hot keys, which come heaviest first, and chooses the keys that are sampled from
// now on.
func (g *Gate) reportSamples(hot []*hotset.Entry) []report.KeySample {
	g.sampling.Lock()
	defer g.sampling.Unlock()
	before, next := samples{}, samples{}
	if of := g.samples.Load(); of != nil {
		before = *of
	}
	var list []report.KeySample
	for _, e := range hot[:min(len(hot), sampledKeys)] {
		key := e.Key()
		k := before[key]
		if k == nil {
			k = &keySample{prefixes: topNames{}, classes: topNames{}, spelling: topNames{}}
		}
		next[key] = k
		if s := k.report(key); s.Sampled > 0 {
			list = append(list, s)
		}
	}
	g.samples.Store(&next)
	return list
}

func (k *keySample) report(key hottype.Key) report.KeySample {
	k.mu.Lock()
	defer k.mu.Unlock()
	return report.KeySample{
		Key: key, Sampled: k.seen, Prefixes: k.prefixes.heaviestNames(), Classes: k.classes.heaviestNames(),
		Spellings: k.spelling.heaviestNames(),
	}
}
