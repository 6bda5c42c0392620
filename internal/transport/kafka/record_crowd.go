package kafka

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
)

// The fields of Crowd and Heavy in docs/counts.proto.
const (
	fieldSeen  = 1
	fieldMarks = 2
	fieldHeavy = 3

	fieldClient  = 1
	fieldClientN = 2
)

// sayable is the crowd of a count as far as it may stand on the wire: one that
// readers would refuse stays behind, so that the count itself arrives.
func sayable(c *hottype.Count) *hottype.Crowd {
	if c.Crowd == nil || clientsketch.Check(c.Crowd) != nil {
		return nil
	}
	return c.Crowd
}

// appendCrowd appends the field of a pair; nothing for nil.
func appendCrowd(dst []byte, c *hottype.Crowd) []byte {
	if c == nil {
		return dst
	}
	dst = protowire.AppendTag(dst, fieldCrowd, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(crowdSize(c)))
	dst = appendVarint(dst, fieldSeen, uint64(c.Seen))
	if len(c.Marks) > 0 {
		dst = protowire.AppendTag(dst, fieldMarks, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(4*len(c.Marks)))
		for _, mark := range c.Marks {
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

// crowdFieldSize is what a crowd adds to its pair.
func crowdFieldSize(c *hottype.Crowd) int {
	if c == nil {
		return 0
	}
	return 1 + protowire.SizeBytes(crowdSize(c))
}

// crowdSize is the size of a crowd without its tag and length.
func crowdSize(c *hottype.Crowd) int {
	size := 1 + protowire.SizeVarint(uint64(c.Seen))
	if len(c.Marks) > 0 {
		size += 1 + protowire.SizeBytes(4*len(c.Marks))
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

// parseCrowd reads the crowd of a pair. One that is out of bounds makes the
// record broken: clientsketch.Check says what is sound.
func parseCrowd(data []byte) (*hottype.Crowd, error) {
	c := new(hottype.Crowd)
	err := fields(data, func(f field) error {
		switch f.num {
		case fieldSeen:
			c.Seen = int64(min(f.varint, math.MaxInt64))
		case fieldMarks:
			return addMarks(c, f.bytes)
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

func addMarks(c *hottype.Crowd, packed []byte) error {
	if len(packed)%4 != 0 || len(c.Marks)+len(packed)/4 > clientsketch.MaxMarks {
		return errRecord
	}
	for ; len(packed) > 0; packed = packed[4:] {
		c.Marks = append(c.Marks, binary.LittleEndian.Uint32(packed))
	}
	return nil
}

func addHeavy(c *hottype.Crowd, data []byte) error {
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
