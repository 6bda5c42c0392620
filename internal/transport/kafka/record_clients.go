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

// appendClients appends the client sketch of a pair. It appends nothing for nil, and nothing for a sketch that readers
// would reject, so that the count itself arrives.
func appendClients(dst []byte, c *hottype.ClientSketch) []byte {
	if c == nil || clientsketch.Check(c) != nil {
		return dst
	}
	return appendMessage(dst, fieldClients, func(dst []byte) []byte {
		dst = appendVarint(dst, fieldSeen, uint64(c.Attributed))
		if len(c.Sample) > 0 {
			dst = protowire.AppendTag(dst, fieldMarks, protowire.BytesType)
			dst = protowire.AppendVarint(dst, uint64(4*len(c.Sample)))
			for _, mark := range c.Sample {
				dst = protowire.AppendFixed32(dst, mark)
			}
		}
		for _, h := range c.Heavy {
			dst = appendMessage(dst, fieldHeavy, func(dst []byte) []byte {
				dst = appendMessage(dst, fieldClient, func(dst []byte) []byte {
					return clientsketch.AppendClient(dst, h.Client)
				})
				return appendVarint(dst, fieldClientN, uint64(h.N))
			})
		}
		return dst
	})
}

// parseClients reads the client sketch of a pair. A sketch that clientsketch.Check rejects makes the record broken.
func parseClients(data []byte) (*hottype.ClientSketch, error) {
	c := new(hottype.ClientSketch)
	err := parseFields(data, func(f field) error {
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
	err := parseFields(data, func(f field) error {
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
