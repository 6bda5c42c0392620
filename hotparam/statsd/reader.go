package statsd

import (
	"bytes"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/canon"
)

// reader turns datagrams into counts. Not safe for concurrent use but for the
// counters.
type reader struct {
	cfg    ListenerConfig
	batch  *batch
	key    []byte    // scratch
	armed  time.Time // the read deadline that is set; zero: none
	due    time.Time // when the batch is to be handed over; zero: it is empty
	forget time.Time // when names are to be forgotten
	logged time.Time // the last line about malformed input

	stats readerStats
}

// readerStats are added to once a datagram, by one goroutine.
type readerStats struct {
	packets, bytes, lines, counted, requests, foreign, otherTypes, malformed atomic.Uint64
}

func (s *readerStats) read() ListenerStats {
	return ListenerStats{
		Packets: s.packets.Load(), Bytes: s.bytes.Load(), Lines: s.lines.Load(),
		Counted: s.counted.Load(), Requests: s.requests.Load(), Foreign: s.foreign.Load(),
		OtherTypes: s.otherTypes.Load(), Malformed: s.malformed.Load(),
	}
}

// tallies are the counters of one datagram.
type tallies struct{ lines, counted, foreign, otherTypes, malformed uint64 }

func newReader(cfg ListenerConfig) *reader {
	return &reader{cfg: cfg, batch: newBatch(cfg.MaxNames), forget: time.Now().Add(cfg.Remember)}
}

// packet reads the lines of one datagram.
func (r *reader) packet(p []byte) {
	if second := r.cfg.Now().Unix(); second != r.batch.second {
		r.handOver() // with the second before
		r.batch.second = second
	}
	r.stats.packets.Add(1)
	r.stats.bytes.Add(uint64(len(p)))
	var t tallies
	for more := true; more; {
		var line []byte
		line, p, more = bytes.Cut(p, []byte{'\n'})
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if len(line) > 0 {
			r.line(line, &t)
		}
	}
	r.stats.lines.Add(t.lines)
	r.stats.counted.Add(t.counted)
	r.stats.foreign.Add(t.foreign)
	r.stats.otherTypes.Add(t.otherTypes)
	r.stats.malformed.Add(t.malformed)
}

// line reads one line. A name is looked up before the value is read: foreign
// lines are the many, and theirs may look as they like.
func (r *reader) line(line []byte, t *tallies) {
	t.lines++
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || len(name) == 0 || len(line) > r.cfg.MaxLine {
		r.malformed(line, t)
		return
	}
	i := r.batch.known(name)
	if i < 0 {
		var err error
		r.key, err = r.cfg.Names.AppendKey(r.key[:0], name)
		switch {
		case errors.Is(err, canon.ErrForeign):
			t.foreign++
			return
		case err != nil:
			r.malformed(line, t)
			return
		}
	}
	n, k := parseValue(value)
	switch k {
	case otherType:
		t.otherTypes++
		return
	case malformed:
		r.malformed(line, t)
		return
	}
	t.counted++
	if i < 0 {
		i = r.learn(name)
	}
	r.batch.add(i, n)
}

// learn remembers a name for the key in r.key.
func (r *reader) learn(name []byte) int32 {
	if r.batch.full() {
		r.handOver()
		r.handle(r.batch.forget())
	}
	return r.batch.learn(name, hotparam.Key(r.key))
}

// malformed counts a line, and shows one every ten seconds.
func (r *reader) malformed(line []byte, t *tallies) {
	t.malformed++
	now := time.Now()
	if now.Sub(r.logged) < 10*time.Second {
		return
	}
	r.logged = now
	r.cfg.Log.Warn("statsd: malformed line, further ones are only counted for 10 s",
		"line", sanitise(line), "malformed", r.stats.malformed.Load()+t.malformed)
}

// sanitise makes bytes of a stranger fit for a terminal and a log.
func sanitise(line []byte) string {
	const most = 120
	if len(line) > most {
		return strconv.QuoteToASCII(string(line[:most])) + "…"
	}
	return strconv.QuoteToASCII(string(line))
}

// flush hands over what is due and says when something will be; zero: nothing
// is waiting.
func (r *reader) flush(now time.Time) time.Time {
	if !r.due.IsZero() && !now.Before(r.due) {
		r.handOver()
	}
	if now.After(r.forget) {
		r.handOver()
		r.handle(r.batch.forget())
		r.forget = now.Add(r.cfg.Remember)
	}
	if r.batch.empty() {
		r.due = time.Time{}
	} else if r.due.IsZero() {
		r.due = now.Add(r.cfg.Flush)
	}
	return r.due
}

// finish hands over everything.
func (r *reader) finish() {
	r.handOver()
	r.handle(r.batch.forget())
}

func (r *reader) handOver() {
	r.handle(r.batch.take())
	r.due = time.Time{}
}

func (r *reader) handle(counts []hotparam.Count) {
	if len(counts) == 0 {
		return
	}
	var n uint64
	for i := range counts {
		n += uint64(counts[i].N)
	}
	r.stats.requests.Add(n)
	r.cfg.Handle(counts)
}
