// Package protofield reads messages of protocol buffers field by field, for packages that need a few fields of another
// project's schema and do not link its generated code.
package protofield

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed is the error for bytes that are not a message.
var ErrMalformed = errors.New("the message is not a protocol buffer of its type")

// Each calls f with each field of a message that is length-delimited, as text, or a varint, as number; it skips fields
// of fixed size. To skip an unknown field, as the format demands, f returns nil. Each returns the first error of f, or
// ErrMalformed; text shares the memory of b.
func Each(b []byte, f func(field protowire.Number, text []byte, number uint64) error) error {
	for len(b) > 0 {
		field, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ErrMalformed
		}
		b = b[n:]
		var text []byte
		var number uint64
		switch typ {
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		default:
			if n = protowire.ConsumeFieldValue(field, typ, b); n >= 0 {
				b = b[n:]
				continue
			}
		}
		if n < 0 {
			return ErrMalformed
		}
		b = b[n:]
		if err := f(field, text, number); err != nil {
			return err
		}
	}
	return nil
}
