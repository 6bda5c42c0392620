package main

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// plain is a codec of gRPC for messages that are bytes already. The Go package of gubernator's messages would bring all
// that its daemon needs into this module.
type plain struct{}

func (plain) Name() string { return "proto" }

func (plain) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("limit: %T is not bytes", v)
	}
	return *b, nil
}

func (plain) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("limit: %T is not bytes", v)
	}
	*b = append((*b)[:0], data...)
	return nil
}

// gubernatorRequest returns a RateLimitReq of one hit: a leaky bucket (1) that holds the burst, and the limit in a
// second.
func gubernatorRequest(key string) []byte {
	b := appendText(appendText(nil, 1, "bench"), 2, key)
	for _, field := range []struct {
		number protowire.Number
		value  uint64
	}{{3, 1}, {4, rate}, {5, uint64(time.Second.Milliseconds())}, {6, 1}, {8, burst}} {
		b = protowire.AppendVarint(protowire.AppendTag(b, field.number, protowire.VarintType), field.value)
	}
	return b
}

func appendText(b []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

// numbers returns the numbers in a message by their fields, and texts its texts and messages. A malformed message ends
// where it is malformed.
func numbers(message []byte) map[protowire.Number]uint64 {
	all := map[protowire.Number]uint64{}
	eachField(message, protowire.VarintType, func(number protowire.Number, value []byte) {
		all[number], _ = protowire.ConsumeVarint(value)
	})
	return all
}

func texts(message []byte) map[protowire.Number]string {
	all := map[protowire.Number]string{}
	eachField(message, protowire.BytesType, func(number protowire.Number, value []byte) {
		all[number], _ = protowire.ConsumeString(value)
	})
	return all
}

func eachField(message []byte, kind protowire.Type, see func(number protowire.Number, value []byte)) {
	for len(message) > 0 {
		number, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		length := protowire.ConsumeFieldValue(number, typ, message[n:])
		if length < 0 {
			return
		}
		if typ == kind {
			see(number, message[n:n+length])
		}
		message = message[n+length:]
	}
}
