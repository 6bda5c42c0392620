package envoy

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that everything else goes through
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Bounds of what one message may make us remember. Envoy's own are far below.
const (
	maxDescriptors = 100
	maxEntries     = 100
	maxHeaders     = 1000
)

// rateLimitRequest is what is read of envoy.service.ratelimit.v3.RateLimitRequest.
type rateLimitRequest struct {
	domain      string
	descriptors []descriptor
	hits        uint64 // 0: not said
}

// descriptor is what is read of envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.
type descriptor struct {
	entries []entry
	hits    uint64 // 0: not said
	// negative asks to give back instead of to take.
	negative bool
	own      *ownLimit // the limit that it brings along; nil for most
}

// ownLimit is what is read of RateLimitDescriptor.RateLimitOverride.
type ownLimit struct{ requests, unit, multiplier uint64 }

type entry struct{ key, value string }

// checkRequest is what is read of envoy.service.auth.v3.CheckRequest.
type checkRequest struct {
	source       string // IP address of the peer; "" for a pipe
	method, host string
	path, query  string // "" where no HTTP request is described
	headers      httplimit.Headers
}

// codec reads our two requests by hand, sends answers that are encoded already, and leaves all other messages to
// gRPC's own codec.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ours := v.(interface{ unmarshal(b []byte) error })
	if !ours {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return m.unmarshal(b.ReadOnlyData())
}

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ours := v.(encoded); ours {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

var errWire = errors.New("envoy: message is no protocol buffer of its type")

// fields calls f with each field of a message: bytes for a length-delimited one, else number.
// A field that f does not know is skipped, as protocol buffers want it.
func fields(b []byte, f func(num protowire.Number, bytes []byte, number uint64) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
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
			if n = protowire.ConsumeFieldValue(num, typ, b); n >= 0 {
				b = b[n:]
				continue
			}
		}
		if n < 0 {
			return errWire
		}
		b = b[n:]
		if err := f(num, text, number); err != nil {
			return err
		}
	}
	return nil
}

func (r *rateLimitRequest) unmarshal(b []byte) error {
	return fields(b, func(num protowire.Number, text []byte, n uint64) error {
		switch num {
		case 1:
			r.domain = string(text)
		case 2:
			if len(r.descriptors) == maxDescriptors {
				return fmt.Errorf("envoy: more than %d descriptors", maxDescriptors)
			}
			var d descriptor
			if err := d.unmarshal(text); err != nil {
				return err
			}
			r.descriptors = append(r.descriptors, d)
		case 3:
			r.hits = uint64(uint32(n))
		}
		return nil
	})
}

func (d *descriptor) unmarshal(b []byte) error {
	return fields(b, func(num protowire.Number, text []byte, n uint64) error {
		switch num {
		case 1:
			if len(d.entries) == maxEntries {
				return fmt.Errorf("envoy: more than %d entries in a descriptor", maxEntries)
			}
			var e entry
			err := pair(text, &e.key, &e.value)
			d.entries = append(d.entries, e)
			return err
		case 2:
			d.own = new(ownLimit)
			return d.own.unmarshal(text)
		case 3:
			return wrapped(text, &d.hits)
		case 4:
			d.negative = n != 0
		}
		return nil
	})
}

func (o *ownLimit) unmarshal(b []byte) error {
	return fields(b, func(num protowire.Number, text []byte, n uint64) error {
		switch num {
		case 1:
			o.requests = uint64(uint32(n))
		case 2:
			o.unit = n
		case 3:
			return wrapped(text, &o.multiplier)
		}
		return nil
	})
}

// wrapped reads a google.protobuf.UInt64Value or UInt32Value.
func wrapped(b []byte, into *uint64) error {
	return fields(b, func(num protowire.Number, _ []byte, n uint64) error {
		if num == 1 {
			*into = n
		}
		return nil
	})
}

// pair reads a message whose fields 1 and 2 are strings: a descriptor's entry, an entry of a map. Of a HeaderValue
// the second one may be in field 3, raw_value.
func pair(b []byte, first, second *string) error {
	return fields(b, func(num protowire.Number, text []byte, _ uint64) error {
		switch num {
		case 1:
			*first = string(text)
		case 2, 3:
			*second = string(text)
		}
		return nil
	})
}

func (r *checkRequest) unmarshal(b []byte) error {
	return within(b, 1, func(attributes []byte) error {
		return fields(attributes, func(num protowire.Number, text []byte, _ uint64) error {
			switch num {
			case 1: // source.address.socket_address.address
				return within(text, 1, func(address []byte) error {
					return within(address, 1, func(socket []byte) error {
						return within(socket, 2, func(text []byte) error { r.source = string(text); return nil })
					})
				})
			case 4: // request.http
				return within(text, 2, r.unmarshalHTTP)
			}
			return nil
		})
	})
}

// within calls f with the bytes of one field, as often as it is there.
func within(b []byte, field protowire.Number, f func([]byte) error) error {
	return fields(b, func(num protowire.Number, text []byte, _ uint64) error {
		if num == field {
			return f(text)
		}
		return nil
	})
}

func (r *checkRequest) unmarshalHTTP(b []byte) error {
	return fields(b, func(num protowire.Number, text []byte, _ uint64) error {
		switch num {
		case 2:
			r.method = string(text)
		case 3: // headers, a map
			return r.addHeader(text)
		case 4:
			r.path = string(text)
		case 5:
			r.host = string(text)
		case 7:
			r.query = string(text)
		case 13: // header_map, which Envoy sends instead with encode_raw_headers
			return within(text, 1, r.addHeader)
		}
		return nil
	})
}

func (r *checkRequest) addHeader(b []byte) error {
	if len(r.headers) == maxHeaders {
		return fmt.Errorf("envoy: more than %d headers", maxHeaders)
	}
	var h httplimit.HeaderField
	err := pair(b, &h.Name, &h.Value)
	r.headers = append(r.headers, h)
	return err
}
