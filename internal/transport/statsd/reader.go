package statsd

import (
	"bytes"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/counting/origins"
)

// reader turns lines into counts. Only its counters are safe for concurrent use.
type reader struct {
	cfg  ListenerConfig
	sums *sums
	out  *outbox    // of lines for another server, or nil
	bad  *rejectLog // shared with other readers
	// from is the sender of the current lines: zero if it is unknown, and without a port for a connection.
	from   netip.AddrPort
	sender *sender // of from, or nil if it has not sent a heartbeat
	// arrived is the time at which the kernel received the current datagram, or zero if it is unknown.
	arrived  time.Time
	leaveOut bool // arrived is unknown, and the lines may have waited in a standstill
	senders  map[netip.AddrPort]*sender
	flows    *flows    // shared with other readers
	key      []byte    // scratch
	due      time.Time // time at which the sums are handed over, or zero without sums
	expireAt time.Time // time at which names are forgotten

	counters    received // counted so far
	linesBefore uint64   // ownLineCount before the current datagram or chunk

	mu       sync.Mutex
	snapshot received // guarded by mu: counters, as of the last datagram, chunk or flush
}

// Bounds of the time that a line may carry. A time beyond them is in no window, not even in a window of an hour.
const (
	oldest = 3600                                   // seconds before it arrives
	newest = int64(hottype.MaxFuture / time.Second) // and after
)

const nameTTL = 10 * time.Second // how long metric names are remembered

// newReader makes a reader; out is nil if lines are not forwarded.
func newReader(cfg ListenerConfig, bad *rejectLog, out *outbox, flows *flows) *reader {
	return &reader{
		cfg: cfg, flows: flows, sums: newSums(cfg.MaxNames, cfg.MaxNameBytes), bad: bad, out: out,
		expireAt: time.Now().Add(nameTTL),
	}
}

// lineCounters returns the counters. It may be called by any goroutine.
func (r *reader) lineCounters() received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot
}

func (r *reader) updateSnapshot() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snapshot = r.counters
}

func (r *reader) readPacket(p []byte) {
	r.counters.Packets++
	r.readLines(p)
}

// readLines reads whole lines with line feeds between them.
func (r *reader) readLines(p []byte) {
	now := r.arrivalTime()
	r.sums.sender = origins.SenderAddr(r.from.Addr())
	r.sender = r.senders[r.from]
	if second := now.Unix(); second != r.sums.second {
		r.handOver() // they belong to the previous second
		r.sums.second = second
	}
	r.counters.Bytes += uint64(len(p))
	r.linesBefore = r.counters.ownLineCount()
	alive := r.counters.Counted + r.counters.Alive
	for more := true; more; {
		var raw []byte
		raw, p, more = bytes.Cut(p, []byte{'\n'})
		line := raw
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if len(line) == 0 {
			continue
		}
		ours := r.readLine(line)
		if r.out != nil && (!ours || r.cfg.ForwardAll) && len(line) <= r.cfg.MaxLine {
			if ours { // other servers do not know the time of a line
				raw = withoutTime(raw)
			}
			r.out.add(raw)
		}
	}
	if r.sender != nil {
		r.sender.lines += r.counters.ownLineCount() - r.linesBefore
	}
	if r.counters.Counted+r.counters.Alive > alive {
		r.counters.heard = r.cfg.Now()
	}
	r.updateSnapshot()
}

// arrivalTime returns the time at which the current lines arrived, as far as that is known, and sets leaveOut. The
// kernel's time may be ahead if the clock was set back meanwhile.
func (r *reader) arrivalTime() time.Time {
	now := r.cfg.Now()
	r.leaveOut = r.arrived.IsZero() && r.cfg.Standstill.Recent()
	if !r.arrived.IsZero() && r.arrived.Before(now) {
		return r.arrived
	}
	return now
}

// withoutTime returns a line of ours without the second that it may end with.
func withoutTime(line []byte) []byte {
	if i := bytes.LastIndexByte(line, '|'); i >= 0 && i+1 < len(line) && line[i+1] == 'T' {
		return line[:i]
	}
	return line
}

// readLine reads one line and reports whether its name is ours. Names are looked up first, because most lines are
// foreign and may have any value.
func (r *reader) readLine(line []byte) (ours bool) {
	r.counters.Lines++
	name, rest, ok := bytes.Cut(line, []byte{':'})
	switch {
	case len(line) > r.cfg.MaxLine:
		r.countMalformed(line, tooLong, nil)
		return false
	case isNotice(line):
		r.counters.IgnoredTypes++
		return false
	case !ok || len(name) == 0:
		r.countMalformed(line, noName, nil)
		return false
	}
	i := r.sums.findEntry(name)
	if i < 0 {
		var err error
		r.key, err = r.cfg.Names.AppendKey(r.key[:0], name)
		switch {
		case errors.Is(err, canon.ErrForeign) && r.cfg.Names.IsAlive(name):
			if err := r.readHeartbeat(rest); err != nil {
				r.countMalformed(line, badMember, err)
				return true
			}
			r.counters.Alive++
			return true
		case errors.Is(err, canon.ErrForeign):
			r.counters.Foreign++
			return false
		case err != nil:
			r.countMalformed(line, badName, err)
			return true
		}
	}
	switch v := parseValue(rest, r.cfg.MaxCount); v.kind {
	case counter:
		r.addCounter(i, name, v)
	case setMember:
		m, err := clientsketch.ParseMember(v.member)
		if err != nil {
			r.countMalformed(line, badMember, err)
			return true
		}
		r.counters.Members++
		r.addMember(i, name, m)
	case ignoredType:
		r.counters.IgnoredTypes++
	default:
		r.countMalformed(line, v.fault, nil)
	}
	return true
}

// addMember adds a client to the count of the name, unless that is left out.
func (r *reader) addMember(i int32, name []byte, m clientsketch.Member) {
	if r.leaveOut && (i < 0 || !r.sums.isLastStamped(i)) {
		return
	}
	if i >= 0 && !r.sums.hasClientRoom(i) {
		r.evictNames()
		i = -1
		r.key, _ = r.cfg.Names.AppendKey(r.key[:0], name) // the name could be read before
	}
	r.sums.addMember(r.ensureEntry(i, name), m)
}

// addCounter adds a counter to its own second, or else to the second of its arrival.
func (r *reader) addCounter(i int32, name []byte, v value) {
	now := r.sums.second
	switch {
	case !v.stamped && r.leaveOut:
		r.counters.LeftOut++
		if i >= 0 {
			r.sums.entries[i].second = 0 // its members are left out, too
		}
		return
	case !v.stamped || v.second == now:
		r.sums.add(r.ensureEntry(i, name), v.total)
	case v.second < now-oldest || v.second > now+newest:
		r.counters.Untimely++
		return
	default:
		if r.sums.areTimesFull() {
			r.handOver()
		}
		r.sums.addAt(r.ensureEntry(i, name), v.second, v.total)
	}
	r.counters.Counted++
}

// ensureEntry returns the entry of a name, and adds it if it is new. i is the result of sums.findEntry, and if that is
// -1, r.key is the name's key.
func (r *reader) ensureEntry(i int32, name []byte) int32 {
	if i >= 0 {
		return i
	}
	if r.sums.areNamesFull() {
		r.evictNames()
	}
	return r.sums.addName(name, hottype.Key(r.key))
}

// countMalformed counts a line and logs why it is malformed, with the cause if there is one.
func (r *reader) countMalformed(line []byte, why fault, cause error) {
	r.counters.Malformed++
	r.counters.faults[why]++
	r.bad.logMalformed(line, why, cause, r.from.Addr())
}

// countCut counts a line of a stream that is too long or unfinished, and therefore not read.
func (r *reader) countCut(line []byte) {
	why := cutOff
	if len(line) > r.cfg.MaxLine {
		why = tooLong
	}
	r.counters.Lines++
	r.countMalformed(line, why, nil)
	r.updateSnapshot()
}

// flush hands over the counts that are due and returns the time at which the next are, or zero if no counts wait.
func (r *reader) flush(now time.Time) time.Time {
	if !r.due.IsZero() && !now.Before(r.due) {
		r.handOver()
	}
	if now.After(r.expireAt) {
		r.removeNames()
		r.expireAt = now.Add(nameTTL)
	}
	if r.sums.isEmpty() && r.out.isEmpty() {
		r.due = time.Time{}
	} else if r.due.IsZero() {
		r.due = now.Add(r.cfg.Flush)
	}
	return r.due
}

func (r *reader) finish() { r.removeNames() }

// evictNames makes room for further names. Forgotten names that come again are parsed again; no count is lost.
func (r *reader) evictNames() {
	r.counters.NamesFull++
	r.removeNames()
}

func (r *reader) removeNames() {
	r.handOver()
	r.handle(r.sums.removeNames())
}

func (r *reader) handOver() {
	r.handle(r.sums.takeCounts())
	r.out.flush()
	r.due = time.Time{}
}

func (r *reader) handle(counts []hottype.Count) {
	if len(counts) == 0 {
		return
	}
	r.counters.Requests += batchqueue.Requests(counts)
	r.updateSnapshot()
	r.cfg.Handle(counts)
}
