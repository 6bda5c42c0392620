package historystore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// The format of a file, in little endian:
//
//	file   = "hotparam history KIND 1\n" block…            KIND is minutes, hours or events; 1 is the version
//	block  = length of payload [4] checksum of payload [4] checksum of both [4] payload    CRC-32C
//	minute = seconds allowed denied count (text number)… count row…                        sums of an hour: the same
//	row    = key rule state rate peak allowed denied (would deny) clients                  sorted by key
//	event  = milliseconds kind key detail step [1] (key state rule from until peak)        the span, if step is not 0
//	state  = number [1] (cost)           the cost is a text, and there only if hasCost is added to the number;
//	                                     with hasWouldDeny the row has the number of requests in brackets
//	text   = length bytes
//
// Files with a cost or with requests that shadow mode would have denied are damaged to programs that know none; other
// files are the same for all. A minute has the number of such requests of all keys beside the reasons of denials.
//
// Numbers of type float64 take eight bytes, all others are varints. Times are unix seconds, of events and spans unix
// milliseconds.
const (
	minutesKind = "minutes"
	hoursKind   = "hours"
	eventsKind  = "events"

	blockHeader = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func fileHeader(kind string) []byte { return []byte("hotparam history " + kind + " 1\n") }

// appendBlock appends a payload with its length and checksums.
func appendBlock(b, payload []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	return append(b, payload...)
}

var (
	errTorn    = errors.New("the last block is not whole")
	errDamaged = errors.New("the file is damaged or of another version")
)

// splitBlocks returns the payloads of a file up to the first fault, and the number of bytes up to there. The error is
// errTorn if the file ends within its last block, as after a crash, and errDamaged for all other faults.
func splitBlocks(kind string, data []byte) (payloads [][]byte, good int, err error) {
	header := fileHeader(kind)
	if len(data) < len(header) && string(header[:len(data)]) == string(data) {
		return nil, 0, errTorn
	}
	if len(data) < len(header) || string(data[:len(header)]) != string(header) {
		return nil, 0, errDamaged
	}
	good = len(header)
	for good < len(data) {
		rest := data[good:]
		if len(rest) < blockHeader {
			return payloads, good, errTorn
		}
		length := uint64(binary.LittleEndian.Uint32(rest))
		if crc32.Checksum(rest[:8], castagnoli) != binary.LittleEndian.Uint32(rest[8:]) {
			return payloads, good, errDamaged
		}
		if length > uint64(len(rest)-blockHeader) {
			return payloads, good, errTorn
		}
		payload := rest[blockHeader : blockHeader+length]
		if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(rest[4:]) {
			return payloads, good, errDamaged
		}
		payloads, good = append(payloads, payload), good+blockHeader+int(length)
	}
	return payloads, good, nil
}

var states = []string{history.Cold, history.Loop, history.Hot}

// hasCost is added to the number of a state that a cost follows.
const hasCost = 0x80

// hasWouldDeny is added to the number of the state of a row that has requests which shadow mode would have denied, and
// wouldDeny is their name among the reasons of denials.
const (
	hasWouldDeny = 0x40
	wouldDeny    = "would_deny"
)

// appendState appends a state, and the cost in whose units the rates are, if it is not of requests.
func appendState(b []byte, state string, cost hottype.Cost) []byte {
	number := byte(max(0, slices.Index(states, state)))
	if cost == "" {
		return append(b, number)
	}
	return appendText(append(b, number|hasCost), string(cost))
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendFloats(b []byte, list ...float64) []byte {
	for _, f := range list {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

// encodeMinute returns the payload of a minute, whose keys may be in any order.
func encodeMinute(m *history.Minute) []byte {
	b := binary.AppendVarint(nil, m.Total.Minute.Unix())
	b = appendFloats(b, float64(m.Total.Allowed), float64(m.Total.Denied))
	by := map[string]float64{}
	if m.Total.WouldDeny > 0 {
		by[wouldDeny] = m.Total.WouldDeny
	}
	maps.Copy(by, m.Total.By)
	b = binary.AppendUvarint(b, uint64(len(by)))
	for what, n := range by {
		b = appendFloats(appendText(b, what), n)
	}
	keys := slices.SortedFunc(slices.Values(m.Keys), byKey)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for i := range keys {
		k := &keys[i]
		b = appendText(appendText(b, string(k.Key)), k.Rule)
		at := len(b)
		b = appendFloats(appendState(b, k.State, k.Cost), k.Rate, k.Peak, float64(k.Allowed), float64(k.Denied))
		if k.WouldDeny > 0 {
			b[at] |= hasWouldDeny
			b = appendFloats(b, k.WouldDeny)
		}
		b = binary.AppendVarint(b, k.Clients)
	}
	return b
}

func byKey(a, b history.KeyMinute) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Cost, b.Cost))
}

// cursor reads a payload from its beginning. Once it is bad, every value that it reads is zero.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) takeBytes(n uint64) []byte {
	if c.bad = c.bad || n > uint64(len(c.rest)); c.bad {
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) readUvarint() uint64 {
	v, n := binary.Uvarint(c.rest)
	c.takeBytes(uint64(max(n, 0)))
	if c.bad = c.bad || n <= 0; c.bad {
		return 0
	}
	return v
}

func (c *cursor) readVarint() int64 {
	v := c.readUvarint()
	return int64(v>>1) ^ -int64(v&1) // as binary.Varint does
}

func (c *cursor) readText() []byte { return c.takeBytes(c.readUvarint()) }

func (c *cursor) readFloat() float64 {
	if b := c.takeBytes(8); b != nil {
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return 0
}

func (c *cursor) readByte() byte {
	if b := c.takeBytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) readState() (state string, cost []byte) { return c.readStateOf(c.readByte()) }

// readStateOf reads the rest of a state whose number was read.
func (c *cursor) readStateOf(b byte) (state string, cost []byte) {
	if b&hasCost != 0 {
		b, cost = b&^hasCost, c.readText()
	}
	if int(b) >= len(states) {
		c.bad = true
		return history.Cold, nil
	}
	return states[b], cost
}

func (c *cursor) readMillis() time.Time { return time.UnixMilli(c.readVarint()).UTC() }

// checkEnd returns errDamaged if the payload ended too early, or has more bytes than were read.
func (c *cursor) checkEnd() error {
	if c.bad || len(c.rest) > 0 {
		return fmt.Errorf("%w: a block has other contents than its kind", errDamaged)
	}
	return nil
}

// row is a key in a minute or in an hour. Its texts are parts of the payload, so that a row that is skipped costs no
// memory.
type row struct {
	key, rule, cost             []byte
	state                       string
	rate, peak, allowed, denied float64
	wouldDeny                   float64
	clients                     int64
}

func (r *row) keyMinute(at int64) history.KeyMinute {
	return history.KeyMinute{Minute: time.Unix(at, 0).UTC(), Key: hottype.Key(r.key), Rule: string(r.rule),
		Cost: hottype.Cost(r.cost), State: r.state, Rate: r.rate, Peak: r.peak, Allowed: history.Requests(r.allowed),
		Denied: history.Requests(r.denied), WouldDeny: r.wouldDeny, Clients: r.clients}
}

// block is a payload of a minute or of an hour, of which only the time was read.
type block struct {
	at     int64 // unix seconds
	cursor cursor
}

// mayContain reports whether a block may have a row of a key. It costs a fraction of reading the rows.
func (b block) mayContain(key hottype.Key) bool { return bytes.Contains(b.cursor.rest, []byte(key)) }

func openBlock(payload []byte) block {
	b := block{cursor: cursor{rest: payload}}
	b.at = b.cursor.readVarint()
	return b
}

// read returns the totals of a block, and calls each for its rows. The row is valid until each returns.
func (b block) read(each func(*row)) (history.Total, error) {
	c := b.cursor
	t := history.Total{Minute: time.Unix(b.at, 0).UTC(), Allowed: history.Requests(c.readFloat()),
		Denied: history.Requests(c.readFloat()), By: map[string]float64{}}
	for n := c.readUvarint(); n > 0 && !c.bad; n-- {
		what := string(c.readText())
		t.By[what] = c.readFloat()
	}
	t.WouldDeny = t.By[wouldDeny]
	delete(t.By, wouldDeny)
	var r row
	for n := c.readUvarint(); n > 0 && !c.bad; n-- {
		r.key, r.rule = c.readText(), c.readText()
		state := c.readByte()
		r.state, r.cost = c.readStateOf(state &^ hasWouldDeny)
		r.rate, r.peak, r.allowed, r.denied = c.readFloat(), c.readFloat(), c.readFloat(), c.readFloat()
		if r.wouldDeny = 0; state&hasWouldDeny != 0 {
			r.wouldDeny = c.readFloat()
		}
		if r.clients = c.readVarint(); !c.bad {
			each(&r)
		}
	}
	return t, c.checkEnd()
}
