package detect

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/origins"
	"github.com/hotparam/pipeline/internal/detection/heavyhitters"
	"github.com/hotparam/pipeline/internal/detection/window"
)

// warmBatch is the number of keys that are fetched from memory at the same time.
const warmBatch = heavyhitters.MaxWarm

// shard counts the keys of one part of all hashes; a key is in one shard only. Its lock guards all fields.
type shard struct {
	mu             sync.Mutex
	d              *Detector
	now            time.Time    // the latest time passed to it; zero before the first call
	second         int64        // of now
	states         []*ruleState // in the order of the rules
	budget         *sketchBudget
	pendingChanges []Change // that happened between Ticks, for the next one to report
	stats          Stats
	warm           uint64 // keeps the compiler from removing the warming
}

// addAll adds the counts of a batch that belong to this shard.
func (l *shard) addAll(now time.Time, counts []hottype.Count, b *batch, mine []int32) (crossed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = l.advance(now)
	for len(mine) > 0 {
		group := b.nextGroup(mine)
		mine = mine[len(group):]
		h := l.states[b.rule[group[0]]]
		l.warm += h.counts.Warm(b.warm[:len(group)])
		for k, i := range group {
			crossed = l.add(now, &counts[i], h, b.warm[k%warmBatch]) || crossed
		}
	}
	return crossed
}

func (l *shard) add(now time.Time, c *hottype.Count, h *ruleState, hash uint64) bool {
	added := h.counts.Add(hash, string(c.Key), c.Second, c.N)
	if added.Status != window.OK {
		l.countDrop(added.Status)
		return false
	}
	l.stats.Adds++
	l.stats.Newest = max(l.stats.Newest, c.Second)
	h.judgesBefore = h.judgesBefore || added.Before > 0
	if near := max(added.Sum, added.Before) >= h.compiled.least/sketchFrom; c.Clients != nil ||
		near && (h.clients.anonymous || c.Origin.N > 0) {
		h.clients.add(c, near)
	}
	return added.Crossed && h.onThreshold(added.Place, now)
}

func (l *shard) countDrop(s window.Status) {
	switch s {
	case window.Late:
		l.stats.DroppedLate++
	case window.Future:
		l.stats.DroppedFuture++
	case window.Full:
		l.stats.DroppedFull++
	default:
		l.stats.DroppedBad++
	}
}

// advance moves the time forward to now, one second after the other, so that the counts of every second are judged. It
// returns the resulting time: now, or the latest time passed before if that is later.
func (l *shard) advance(now time.Time) time.Time {
	if second := now.Unix(); second != l.second || l.now.IsZero() {
		l.advanceTo(now, second)
	}
	if now.After(l.now) {
		l.now = now
	}
	return l.now
}

func (l *shard) advanceTo(now time.Time, second int64) {
	span := l.d.span
	if l.now.IsZero() || l.second-second > span {
		l.dropCounts(second)
		l.now = now
		return
	}
	// After a whole span without counts, further seconds change nothing.
	quiet := l.second + span + 1
	for l.second < min(second, quiet) {
		l.nextSecond(l.second + 1)
	}
	if l.second < second {
		l.nextSecond(second)
	}
}

func (l *shard) nextSecond(second int64) {
	l.second = second
	for i, h := range l.states {
		h.advance(second, func(key hottype.Key) bool { return l.d.routes.ruleFor(key) == i })
	}
}

// dropCounts drops all counts, at the first second or after the clock was found to have been wrong.
func (l *shard) dropCounts(second int64) {
	if !l.now.IsZero() {
		l.stats.ClockResets++
		l.stats.Newest = 0
	}
	l.second = second
	for _, h := range l.states {
		h.restartCounts(second)
	}
}

// sketchBudget bounds the number of client sketches that all rules of a shard keep.
type sketchBudget struct {
	free int
	// evicted counts sketches dropped to make room for others. Such a key counts as a single client.
	evicted uint64
	rules   func() []*ruleState // returns the rules that share it
}

// evict makes room. If a network has more than its share of the sketches, evict drops the lightest third of the
// sketches of the network with most; else it does so for senders; else it drops the lightest third of all. A key that
// is still requested gets a sketch again with its next count.
func (b *sketchBudget) evict() {
	type held struct {
		of              *clientSketches
		key             hottype.Key
		weight          int64
		network, sender uint32
	}
	var all []held
	networks, senders := make(map[uint32]int), make(map[uint32]int)
	for _, h := range b.rules() {
		for key := range h.clients.keys {
			a, _ := h.clients.clientsOf(key, h.second)
			all = append(all, held{h.clients, key, a.requests, a.network.Tag, a.sender.Tag})
			networks[a.network.Tag]++
			senders[a.sender.Tag]++
		}
	}
	if tag := tagOverShare(networks, len(all)); tag != 0 {
		all = slices.DeleteFunc(all, func(h held) bool { return h.network != tag })
	} else if tag := tagOverShare(senders, len(all)); tag != 0 {
		all = slices.DeleteFunc(all, func(h held) bool { return h.sender != tag })
	}
	slices.SortFunc(all, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.key, b.key))
	})
	for _, h := range all[:len(all)/3+1] {
		delete(h.of.keys, h.key)
		b.free++
		b.evicted++
	}
}

// tagOverShare returns the tag with most keys if it has more than its share of all, or else 0.
func tagOverShare(keys map[uint32]int, all int) (tag uint32) {
	for t, n := range keys {
		if t != 0 && n*origins.Share > all && (n > keys[tag] || n == keys[tag] && t < tag) {
			tag = t
		}
	}
	return tag
}
