package learn

import (
	"maps"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// windows are the windows that a rule may have, in seconds. The last is the longest.
var windows = [...]int64{5, 10, 30, 60}

type measured struct {
	key   hottype.Key
	score [len(windows)]float64 // the highest threshold at which the key would be hot
	asked [len(windows)]int64   // requests in that window
	who   [len(windows)]int64   // different clients in that window
	total int64
	usual int64 // requests by clients other than machines
}

type burst struct {
	second int64
	client uint32
	n      uint32
}

type keyPeaks struct {
	measured
	bursts []burst
	// seen is the time at which each window was last scored, and had is the number of requests that were in it.
	seen, had [len(windows)]int64
}

// peaks measures the keys of one candidate.
//
// The score is the number that a detector compares with its threshold: the highest threshold t such that t requests are
// left if each client counts for at most t/minClients. So a loop with ten thousand requests scores like a few clients,
// and a value that three hundred people request once each scores 300.
type peaks struct {
	minClients int
	keys       map[hottype.Key]*keyPeaks
	active     []*keyPeaks // keys that were requested in the current second
	least      float64     // pruneIdleKeys deletes idle keys whose score is lower
	now        int64
	counts     int   // bursts that are held
	seen       int64 // number of keys; a key that was deleted in between counts again
	usual      int64 // requests by clients other than machines
	dropped    int64 // requests for keys that did not fit
	// keptKeys and keptCounts are the numbers of keys and counts that the last pruning left.
	keptKeys, keptCounts int
	perClient            map[uint32]int64
	weights              []int64
}

// Idle keys are pruned once in a minute, if there are pruneKeys more keys, or pruneCounts more counts, than the last
// pruning left: a quiet log of months has few of them in each of its many minutes.
const (
	pruneKeys   = 64
	pruneCounts = 4096
)

// leastScore is the lowest score of a key that finishScoring returns, unless the key has a wantedShare of the requests.
const leastScore = 3

// A key is wanted most if it has wantedShare of the requests. Keys with keptShare of the requests so far are not
// deleted, because they may become wanted.
const (
	wantedShare = 0.1
	keptShare   = 0.01
)

func newPeaks(minClients int) *peaks {
	return &peaks{
		minClients: max(minClients, 1), least: leastScore,
		keys: make(map[hottype.Key]*keyPeaks), perClient: make(map[uint32]int64),
	}
}

// add records one request. Seconds come in order. usual is false if the client is a machine.
func (p *peaks) add(key []byte, client uint32, second int64, usual bool) {
	if second != p.now {
		p.advance(second)
	}
	k := p.keys[hottype.Key(key)]
	if k == nil {
		if len(p.keys) >= maxLiveKeys || p.counts >= maxLiveCounts {
			p.dropped++
			return
		}
		k = &keyPeaks{measured: measured{key: hottype.Key(key)}}
		p.keys[k.key] = k
		p.seen++
	}
	k.total++
	if usual {
		k.usual++
		p.usual++
	}
	last := len(k.bursts) - 1
	if last < 0 || k.bursts[last].second != second {
		p.active = append(p.active, k)
	}
	for i := last; i >= 0 && i > last-8 && k.bursts[i].second == second; i-- {
		if k.bursts[i].client == client {
			k.bursts[i].n++
			return
		}
	}
	p.counts++
	k.bursts = append(k.bursts, burst{second, client, 1})
}

func (p *peaks) advance(second int64) {
	for _, k := range p.active {
		p.scoreWindows(k)
	}
	p.active = p.active[:0]
	if second/60 != p.now/60 && (len(p.keys) >= p.keptKeys+pruneKeys || p.counts >= p.keptCounts+pruneCounts) {
		p.pruneIdleKeys(second)
		p.keptKeys, p.keptCounts = len(p.keys), p.counts
	}
	p.now = second
}

func (p *peaks) pruneIdleKeys(second int64) {
	for {
		for key, k := range p.keys {
			p.expire(k, second)
			if len(k.bursts) == 0 {
				k.bursts = nil
				if k.bestScore() < p.least && float64(k.usual) < keptShare*float64(p.usual) {
					delete(p.keys, key)
				}
			}
		}
		if len(p.keys) < maxLiveKeys/2 || p.least > 1e6 {
			return
		}
		p.least *= 2
	}
}

func (k *keyPeaks) bestScore() float64 { return k.score[len(windows)-1] }

func (p *peaks) expire(k *keyPeaks, second int64) {
	old := 0
	for old < len(k.bursts) && k.bursts[old].second <= second-windows[len(windows)-1] {
		old++
	}
	p.counts -= old
	k.bursts = slices.Delete(k.bursts, 0, old)
}

// scoreWindows scores the windows that end with the current second. A long window changes slowly, so that it is scored
// ten times in its length, and whenever its requests have grown by a twentieth since the last time.
func (p *peaks) scoreWindows(k *keyPeaks) {
	p.expire(k, p.now)
	for i, w := range windows {
		asked := int64(0)
		from := len(k.bursts)
		for from > 0 && k.bursts[from-1].second > p.now-w {
			from--
			asked += int64(k.bursts[from].n)
		}
		if float64(asked) <= k.score[i] || p.now-k.seen[i] < w/10 && 20*asked <= 21*k.had[i] {
			continue
		}
		k.seen[i], k.had[i] = p.now, asked
		if score := p.scoreOf(k.bursts[from:]); score > k.score[i] {
			k.score[i], k.asked[i], k.who[i] = score, asked, int64(len(p.perClient))
		}
	}
}

// scoreOf returns the highest threshold t such that the requests, each client capped at t/minClients, reach t. With the
// h heaviest clients over the cap, t = h t/minClients + all others; the score is the minimum of t over h.
func (p *peaks) scoreOf(bursts []burst) float64 {
	clear(p.perClient)
	rest := int64(0)
	for _, b := range bursts {
		p.perClient[b.client] += int64(b.n)
		rest += int64(b.n)
	}
	p.weights = slices.AppendSeq(p.weights[:0], maps.Values(p.perClient))
	slices.Sort(p.weights)
	slices.Reverse(p.weights)
	m := float64(p.minClients)
	best := float64(rest)
	for h := 1; h < p.minClients; h++ {
		if h <= len(p.weights) {
			rest -= p.weights[h-1]
		}
		best = min(best, float64(rest)*m/(m-float64(h)))
	}
	return best
}

// isWanted reports whether a key has a wantedShare of the requests by clients other than machines.
func (m *measured) isWanted(requests int64) bool {
	return m.usual >= leastClients && float64(m.usual) >= wantedShare*float64(requests)
}

// finishScoring ends the last second and returns the keys whose score reaches leastScore, and the wanted keys.
func (p *peaks) finishScoring() []*measured {
	p.advance(p.now + 1)
	var all []*measured
	for _, k := range p.keys {
		if k.bestScore() >= leastScore || k.isWanted(p.usual/4) { // p.usual may include files
			all = append(all, &k.measured)
		}
	}
	return all
}
