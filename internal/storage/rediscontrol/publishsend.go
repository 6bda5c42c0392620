package rediscontrol

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
)

// Codes of lua/publish_hot.lua. Publish returns an ErrFenced for fenced and for late, because in both cases Redis
// rejects the set so that it does not undo a newer one.
const (
	published = 1
	fenced    = 0  // the id does not belong to this process
	late      = -1 // the id does, but a later call of this process was stored
	gap       = -2 // the changes do not continue the stored version
)

// These constants bound the log of a large set: beyond them the set is written whole again, and the last changes are
// kept for readers that are a little behind.
const (
	logEntries = 256
	logKeep    = 32
)

// logSize is the size of a large set and of its change log in Redis. The zero value means unknown.
type logSize struct {
	base, changes, bytes int // bytes of the set, number and bytes of its changes
}

// isFull reports whether the log has logEntries changes, or half as many bytes as the set, which is a third of the
// bytes that a new reader reads.
func (l logSize) isFull() bool {
	return l.changes >= logEntries || l.bytes > max(l.base, compressFrom)/2
}

type message struct {
	from     uint64 // 0: body is the set
	change   []byte
	body     []byte
	encoding string
	at       int64
	keep     int
	log      logSize // after this message
	life     int64
	flags    string
}

// One of these flags follows the version in the index: for a publisher without input, for one that has stopped, and for
// one that has judged partitions of Kafka for a whole window, with their number and their mask in hex ("judged:8:0f").
const (
	flagNoInput = "blind"
	flagStopped = "stopped"
	flagJudged  = "judged:"
)

func formatJudged(p report.Partitions) string {
	return fmt.Sprintf("%s%d:%x", flagJudged, p.Count, p.Mask)
}

// parseJudged reads the text of formatJudged, and returns no partitions for other text.
func parseJudged(flag string) (p report.Partitions) {
	text, _ := strings.CutPrefix(flag, flagJudged)
	count, mask, ok := strings.Cut(text, ":")
	n, err := strconv.Atoi(count)
	bits, err2 := hex.DecodeString(mask)
	if !ok || err != nil || err2 != nil || n <= 0 || len(bits) != (n+7)/8 {
		return report.Partitions{}
	}
	return report.Partitions{Count: n, Mask: bits}
}

type answer struct {
	code    int64
	version uint64
	epoch   int64
}

// send publishes a set in one round trip and records the result.
func (p *Publisher) send(ctx context.Context, set report.HotSet) (answer, error) {
	m, err := p.render(set)
	if err != nil {
		return answer{}, err
	}
	k := p.feed.keys
	p.seq++
	args := []any{p.cfg.ID, p.token, p.seq, p.version.Load(), m.from, m.change, m.at, m.encoding, m.body, m.keep,
		m.life, p.cfg.Lease.Milliseconds(), versionLife.Milliseconds(), epochTTL.Milliseconds(), k.HotNotice(), m.flags,
		receivedLife.Milliseconds()}
	reply, err := publishHot.Run(ctx, p.feed.rdb,
		[]string{k.HotVersion(), k.HotIndex(), k.HotSet(p.cfg.ID), k.HotEpoch(p.cfg.ID), k.HotLog(p.cfg.ID),
			k.HotReceived(p.cfg.ID)}, p.appendReceived(args)...).Int64Slice()
	if err == nil && len(reply) != 3 {
		err = fmt.Errorf("the script returned %v instead of three numbers", reply)
	}
	if err != nil {
		return answer{}, err
	}
	a := answer{code: reply[0], version: uint64(reply[1]), epoch: reply[2]}
	if a.code == published {
		p.version.Store(a.version)
		p.log = m.log
		p.feed.counters.add(func(s *Stats) {
			s.Published++
			s.PublishedBytes += uint64(len(m.change) + len(m.body))
			if len(m.body) > 0 || m.from == 0 {
				s.PublishedWhole++
			}
		})
	}
	return a, nil
}

// render encodes a set: whole if it is small or if the state in Redis is unknown, otherwise as its changes.
func (p *Publisher) render(set report.HotSet) (message, error) {
	m := message{life: p.setLife(set).Milliseconds()}
	switch {
	case set.Last:
		m.flags = flagStopped
	case set.NoInput:
		m.flags = flagNoInput
	case p.cfg.Judged != nil:
		if judged := p.cfg.Judged(); len(bytes.Trim(judged.Mask, "\x00")) > 0 {
			m.flags = formatJudged(judged)
		}
	}
	if roughSize(set) < compressFrom {
		return m, p.renderWhole(&m, set, encodingWhole)
	}
	if p.log == (logSize{}) {
		if err := p.renderWhole(&m, p.encoder.Full(set), encodingBase); err != nil {
			return m, err
		}
		m.log = logSize{base: len(m.body)}
		return m, nil
	}
	var err error
	m.from, m.log = p.version.Load(), p.log
	if m.change, err = appendChange(nil, p.encoder.Next(set)); err != nil {
		return m, err
	}
	m.log.changes++
	m.log.bytes += len(m.change)
	if !m.log.isFull() {
		return m, nil
	}
	whole := p.encoder.Held()
	whole.Keys, whole.Loops = slices.Clone(whole.Keys), slices.Clone(whole.Loops)
	hotset.Sort(whole.Keys)
	hotset.Sort(whole.Loops)
	m.keep = logKeep
	if err := p.renderWhole(&m, whole, encodingBase); err != nil {
		return m, err
	}
	m.log = logSize{base: len(m.body)}
	return m, nil
}

func (p *Publisher) renderWhole(m *message, set report.HotSet, name string) error {
	text, err := appendSet(p.buf[:0], set.Keys)
	if err == nil {
		text, err = appendLoops(text, set.Loops)
	}
	if err != nil {
		return err
	}
	p.buf = text
	m.at = unixMicros(set.At)
	m.body, m.encoding, err = pack(text, name, compressFrom)
	return err
}

func roughSize(set report.HotSet) int {
	const numbers = 60
	n := 0
	for _, list := range [][]hottype.HotKey{set.Keys, set.Loops} {
		for i := range list {
			n += len(list[i].Key) + len(list[i].Rule) + len(list[i].HeaviestClient) + numbers
		}
	}
	return n
}
