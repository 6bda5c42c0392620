package kafka

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
)

// The fields of ClientSketch and Heavy in docs/counts.proto.
const (
	fieldSeen  = 1
	fieldMarks = 2
	fieldHeavy = 3

	fieldClient  = 1
	fieldClientN = 2
)

// encodable is the client sketch of a count as far as it may stand on the wire: one that
// readers would refuse stays behind, so that the count itself arrives.
func encodable(c *hottype.Count) *hottype.ClientSketch {
	if c.Clients == nil || clientsketch.Check(c.Clients) != nil {
		return nil
	}
	return c.Clients
}

// appendClients appends the field of a pair; nothing for nil.
func appendClients(dst []byte, c *hottype.ClientSketch) []byte {
	if c == nil {
		return dst
	}
	dst = protowire.AppendTag(dst, fieldClients, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(clientsSize(c)))
	dst = appendVarint(dst, fieldSeen, uint64(c.Attributed))
	if len(c.Sample) > 0 {
		dst = protowire.AppendTag(dst, fieldMarks, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(4*len(c.Sample)))
		for _, mark := range c.Sample {
			dst = protowire.AppendFixed32(dst, mark)
		}
	}
	for i := range c.Heavy {
		dst = appendHeavy(dst, &c.Heavy[i])
	}
	return dst
}

func appendHeavy(dst []byte, h *hottype.ClientCount) []byte {
	var buf [maxClient]byte
	client := clientsketch.AppendClient(buf[:0], h.Client)
	dst = protowire.AppendTag(dst, fieldHeavy, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(heavySize(h)))
	dst = protowire.AppendTag(dst, fieldClient, protowire.BytesType)
	dst = protowire.AppendBytes(dst, client)
	return appendVarint(dst, fieldClientN, uint64(h.N))
}

// maxClient has room for the form of any client.
const maxClient = 80

// clientsFieldSize is what a client sketch adds to its pair.
func clientsFieldSize(c *hottype.ClientSketch) int {
	if c == nil {
		return 0
	}
	return 1 + protowire.SizeBytes(clientsSize(c))
}

// clientsSize is the size of a client sketch without its tag and length.
func clientsSize(c *hottype.ClientSketch) int {
	size := 1 + protowire.SizeVarint(uint64(c.Attributed))
	if len(c.Sample) > 0 {
		size += 1 + protowire.SizeBytes(4*len(c.Sample))
	}
	for i := range c.Heavy {
		size += 1 + protowire.SizeBytes(heavySize(&c.Heavy[i]))
	}
	return size
}

func heavySize(h *hottype.ClientCount) int {
	var buf [maxClient]byte
	client := len(clientsketch.AppendClient(buf[:0], h.Client))
	return 2 + protowire.SizeBytes(client) + protowire.SizeVarint(uint64(h.N))
}

// parseClients reads the client sketch of a pair. One that is out of bounds makes the
// record broken: clientsketch.Check says what is sound.
func parseClients(data []byte) (*hottype.ClientSketch, error) {
	c := new(hottype.ClientSketch)
	err := fields(data, func(f field) error {
		switch f.num {
		case fieldSeen:
			c.Attributed = int64(min(f.varint, math.MaxInt64))
		case fieldMarks:
			return addSample(c, f.bytes)
		case fieldHeavy:
			return addHeavy(c, f.bytes)
		}
		return nil
	})
	if err != nil || clientsketch.Check(c) != nil {
		return nil, errRecord
	}
	return c, nil
}

func addSample(c *hottype.ClientSketch, packed []byte) error {
	if len(packed)%4 != 0 || len(c.Sample)+len(packed)/4 > clientsketch.MaxSample {
		return errRecord
	}
	for ; len(packed) > 0; packed = packed[4:] {
		c.Sample = append(c.Sample, binary.LittleEndian.Uint32(packed))
	}
	return nil
}

func addHeavy(c *hottype.ClientSketch, data []byte) error {
	var h hottype.ClientCount
	known := false
	err := fields(data, func(f field) error {
		switch f.num {
		case fieldClient:
			h.Client, known = clientsketch.ParseClient(f.bytes)
		case fieldClientN:
			h.N = int64(min(f.varint, math.MaxInt64))
		}
		return nil
	})
	if err != nil || !known || len(c.Heavy) == clientsketch.MaxHeavy {
		return errRecord
	}
	c.Heavy = append(c.Heavy, h)
	return nil
}
