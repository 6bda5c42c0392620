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
	forget   time.Time // time at which names are forgotten

	now    received // counted so far
	before uint64   // our lines before the current datagram or chunk

	mu    sync.Mutex
	shown received // guarded by mu: now, as of the last datagram, chunk or flush
}

// Bounds of the time that a line may carry. A time beyond them is in no window, not even in a window of an hour.
const (
	oldest = 3600                                   // seconds before it arrives
	newest = int64(hottype.MaxFuture / time.Second) // and after
)

const remember = 10 * time.Second // how long metric names are remembered

// newReader makes a reader; out is nil if lines are not forwarded.
func newReader(cfg ListenerConfig, bad *rejectLog, out *outbox, flows *flows) *reader {
	return &reader{
		cfg: cfg, flows: flows, sums: newSums(cfg.MaxNames, cfg.MaxNameBytes), bad: bad, out: out,
		forget: time.Now().Add(remember),
	}
}

// received returns the counters. It may be called by any goroutine.
func (r *reader) received() received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown
}

func (r *reader) show() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown = r.now
}

func (r *reader) packet(p []byte) {
	r.now.Packets++
	r.lines(p)
}

// lines reads whole lines with line feeds between them.
func (r *reader) lines(p []byte) {
	now := r.arrival()
	r.sums.sender = origins.SenderAddr(r.from.Addr())
	r.sender = r.senders[r.from]
	if second := now.Unix(); second != r.sums.second {
		r.handOver() // they belong to the previous second
		r.sums.second = second
	}
	r.now.Bytes += uint64(len(p))
	r.before = r.now.ours()
	alive := r.now.Counted + r.now.Alive
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
		ours := r.line(line)
		if r.out != nil && (!ours || r.cfg.ForwardAll) && len(line) <= r.cfg.MaxLine {
			if ours { // other servers do not know the time of a line
				raw = withoutTime(raw)
			}
			r.out.add(raw)
		}
	}
	if r.sender != nil {
		r.sender.lines += r.now.ours() - r.before
	}
	if r.now.Counted+r.now.Alive > alive {
		r.now.heard = r.cfg.Now()
	}
	r.show()
}

// arrival returns the time at which the current lines arrived, as far as that is known, and sets leaveOut. The kernel's
// time may be ahead if the clock was set back meanwhile.
func (r *reader) arrival() time.Time {
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

// line reads one line and reports whether its name is ours. Names are looked up first, because most lines are foreign
// and may have any value.
func (r *reader) line(line []byte) (ours bool) {
	r.now.Lines++
	name, rest, ok := bytes.Cut(line, []byte{':'})
	switch {
	case len(line) > r.cfg.MaxLine:
		r.malformed(line, tooLong, nil)
		return false
	case isNotice(line):
		r.now.OtherTypes++
		return false
	case !ok || len(name) == 0:
		r.malformed(line, noName, nil)
		return false
	}
	i := r.sums.known(name)
	if i < 0 {
		var err error
		r.key, err = r.cfg.Names.AppendKey(r.key[:0], name)
		switch {
		case errors.Is(err, canon.ErrForeign) && r.cfg.Names.IsAlive(name):
			if err := r.heartbeat(rest); err != nil {
				r.malformed(line, badMember, err)
				return true
			}
			r.now.Alive++
			return true
		case errors.Is(err, canon.ErrForeign):
			r.now.Foreign++
			return false
		case err != nil:
			r.malformed(line, badName, err)
			return true
		}
	}
	switch v := parseValue(rest, r.cfg.MaxCount); v.kind {
	case counter:
		r.count(i, name, v)
	case setMember:
		m, err := clientsketch.ParseMember(v.member)
		if err != nil {
			r.malformed(line, badMember, err)
			return true
		}
		r.now.Members++
		r.join(i, name, m)
	case otherType:
		r.now.OtherTypes++
	default:
		r.malformed(line, v.fault, nil)
	}
	return true
}

// join adds a client to the count of the name, unless that is left out.
func (r *reader) join(i int32, name []byte, m clientsketch.Member) {
	if r.leaveOut && (i < 0 || !r.sums.lastIsStamped(i)) {
		return
	}
	if i >= 0 && !r.sums.hasRoom(i) {
		r.forgetEarly()
		i = -1
		r.key, _ = r.cfg.Names.AppendKey(r.key[:0], name) // the name could be read before
	}
	r.sums.join(r.entry(i, name), m)
}

// count adds a counter to its own second, or else to the second of its arrival.
func (r *reader) count(i int32, name []byte, v value) {
	now := r.sums.second
	switch {
	case !v.stamped && r.leaveOut:
		r.now.LeftOut++
		if i >= 0 {
			r.sums.entries[i].second = 0 // its members are left out, too
		}
		return
	case !v.stamped || v.second == now:
		r.sums.add(r.entry(i, name), v.total)
	case v.second < now-oldest || v.second > now+newest:
		r.now.Untimely++
		return
	default:
		if r.sums.timesFull() {
			r.handOver()
		}
		r.sums.addAt(r.entry(i, name), v.second, v.total)
	}
	r.now.Counted++
}

// entry returns the entry of a name; i is the result of sums.known, and if that is -1, r.key is the name's key.
func (r *reader) entry(i int32, name []byte) int32 {
	if i >= 0 {
		return i
	}
	if r.sums.full() {
		r.forgetEarly()
	}
	return r.sums.learn(name, hottype.Key(r.key))
}

// malformed counts a line and logs why it is malformed, with the cause if there is one.
func (r *reader) malformed(line []byte, why fault, cause error) {
	r.now.Malformed++
	r.now.faults[why]++
	r.bad.line(line, why, cause, r.from.Addr())
}

// cut counts a line of a stream that is too long or unfinished, and therefore not read.
func (r *reader) cut(line []byte) {
	why := cutOff
	if len(line) > r.cfg.MaxLine {
		why = tooLong
	}
	r.now.Lines++
	r.malformed(line, why, nil)
	r.show()
}

// flush hands over the counts that are due and returns the time at which the next are, or zero if no counts wait.
func (r *reader) flush(now time.Time) time.Time {
	if !r.due.IsZero() && !now.Before(r.due) {
		r.handOver()
	}
	if now.After(r.forget) {
		r.forgetNames()
		r.forget = now.Add(remember)
	}
	if r.sums.empty() && r.out.empty() {
		r.due = time.Time{}
	} else if r.due.IsZero() {
		r.due = now.Add(r.cfg.Flush)
	}
	return r.due
}

func (r *reader) finish() { r.forgetNames() }

// forgetEarly makes room for further names. Forgotten names that come again are parsed again; no count is lost.
func (r *reader) forgetEarly() {
	r.now.NamesFull++
	r.forgetNames()
}

func (r *reader) forgetNames() {
	r.handOver()
	r.handle(r.sums.forget())
}

func (r *reader) handOver() {
	r.handle(r.sums.take())
	r.out.flush()
	r.due = time.Time{}
}

func (r *reader) handle(counts []hottype.Count) {
	if len(counts) == 0 {
		return
	}
	r.now.Requests += batchqueue.Requests(counts)
	r.show()
	r.cfg.Handle(counts)
}
