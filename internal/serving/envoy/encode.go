package envoy

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// encoded is a protocol buffer to which fields are added, or a part of one. The answers are written by hand because
// building and encoding the messages took a third of the time of a refusal; the tests read them by the published
// schema. As in proto3, numbers that are zero and texts that are empty are left out.
type encoded []byte

// wireField is the number of a field.
type wireField = protowire.Number

func (b encoded) number(field wireField, n uint64) encoded {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// text adds a string, which has to be UTF-8.
func (b encoded) text(field wireField, s string) encoded {
	if s == "" {
		return b
	}
	return b.always(field, s)
}

func (b encoded) always(field wireField, s string) encoded {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), strings.ToValidUTF8(s, "\ufffd"))
}

func (b encoded) bytes(field wireField, s []byte) encoded {
	if len(s) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// message adds the message that add writes, also an empty one.
func (b encoded) message(field wireField, add func(encoded) encoded) encoded {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	at := len(b)
	b = add(append(b, 0)) // room for a short length
	n := len(b) - at - 1
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		b = append(b, make([]byte, more)...)
		copy(b[at+1+more:], b[at+1:at+1+n])
	}
	protowire.AppendVarint(b[:at], uint64(n))
	return b
}

// textMember adds a member of a google.protobuf.Struct. Its value is one of several, so also an empty one is written.
func (b encoded) textMember(name, value string) encoded {
	return b.message(1, func(b encoded) encoded {
		return b.text(1, name).message(2, func(b encoded) encoded { return b.always(3, value) })
	})
}

func (b encoded) boolMember(name string, value bool) encoded {
	return b.message(1, func(b encoded) encoded {
		return b.text(1, name).message(2, func(b encoded) encoded {
			return protowire.AppendVarint(protowire.AppendTag(b, 4, protowire.VarintType), protowire.EncodeBool(value))
		})
	})
}
