package envoy

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec for all other messages
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hotparam/pipeline/internal/protofield"
)

// Bounds of a call of the rate limit service, which only the routes of Envoy can exceed, not its clients. Descriptors
// beyond them are skipped, because Envoy treats an error as no answer.
const (
	maxDescriptors = 100
	maxEntries     = 100
)

// usualFields is a number of header fields above which a request is counted in Stats. Envoy accepts fewer unless it is
// configured otherwise.
const usualFields = 1000

// rateLimitRequest holds the fields of envoy.service.ratelimit.v3.RateLimitRequest that are read.
type rateLimitRequest struct {
	domain      string
	descriptors []descriptor
	hits        uint64 // 0 if not set
	surplus     int    // number of skipped descriptors
}

// descriptor holds the fields of envoy.extensions.common.ratelimit.v3.RateLimitDescriptor that are read.
type descriptor struct {
	entries []entry
	hits    uint64 // 0 if not set
	// negative is true if the descriptor asks to return hits instead of charging them.
	negative bool
	reports  bool      // Envoy reports the end of the request
	tooWide  bool      // it has more than maxEntries
	own      *ownLimit // the limit that it carries; nil for most
}

// ownLimit holds the fields of RateLimitDescriptor.RateLimitOverride.
type ownLimit struct{ requests, unit, multiplier uint64 }

type entry struct{ key, value string }

// checkRequest holds the fields of envoy.service.auth.v3.CheckRequest that are read.
type checkRequest struct {
	isHTTP       bool   // the message describes an HTTP request
	source       string // IP address of the peer; "" for a pipe
	method, host string
	path, query  string
	headers      headerFields
	joined       bool // headers has the lines of a field joined by commas
}

// codec sends encoded responses unchanged, and leaves all other messages to gRPC's own codec.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ours := v.(encoded); ours {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func (r *rateLimitRequest) unmarshal(b []byte) error {
	return protofield.Each(b, func(num protowire.Number, text []byte, n uint64) error {
		switch num {
		case 1:
			r.domain = string(text)
		case 2:
			if len(r.descriptors) == maxDescriptors {
				r.surplus++
				return nil
			}
			var d descriptor
			if err := d.unmarshal(text); err != nil {
				return err
			}
			if d.tooWide {
				d = descriptor{} // empty, so that no limit and no rule applies to it
				r.surplus++
			}
			r.descriptors = append(r.descriptors, d)
		case 3:
			r.hits = uint64(uint32(n))
		}
		return nil
	})
}

func (d *descriptor) unmarshal(b []byte) error {
	return protofield.Each(b, func(num protowire.Number, text []byte, n uint64) error {
		switch num {
		case 1:
			if d.tooWide = len(d.entries) == maxEntries; d.tooWide {
				return nil
			}
			var e entry
			err := decodePair(text, &e.key, &e.value)
			if e == (entry{keyReports, valueReports}) { // no limit and no rule sees it
				d.reports = true
				return err
			}
			d.entries = append(d.entries, e)
			return err
		case 2:
			d.own = new(ownLimit)
			return d.own.unmarshal(text)
		case 3:
			return decodeWrappedUint(text, &d.hits)
		case 4:
			d.negative = n != 0
		}
		return nil
	})
}

func (o *ownLimit) unmarshal(b []byte) error {
	return protofield.Each(b, func(num protowire.Number, text []byte, n uint64) error {
		switch num {
		case 1:
			o.requests = uint64(uint32(n))
		case 2:
			o.unit = n
		case 3:
			return decodeWrappedUint(text, &o.multiplier)
		}
		return nil
	})
}

// decodeWrappedUint reads a google.protobuf.UInt64Value or UInt32Value.
func decodeWrappedUint(b []byte, into *uint64) error {
	return protofield.Each(b, func(num protowire.Number, _ []byte, n uint64) error {
		if num == 1 {
			*into = n
		}
		return nil
	})
}

// decodePair reads a message whose fields 1 and 2 are strings, such as a descriptor's entry.
func decodePair(b []byte, first, second *string) error {
	return protofield.Each(b, func(num protowire.Number, text []byte, _ uint64) error {
		switch num {
		case 1:
			*first = string(text)
		case 2:
			*second = string(text)
		}
		return nil
	})
}

// receiveMessage reads a message field by field, because Envoy may add a body that nothing reads.
func (r *checkRequest) receiveMessage(m *message) error {
	return m.visitFields(m.size, func(num protowire.Number, size int) error {
		if num != 1 {
			return nil
		}
		return m.visitFields(size, func(num protowire.Number, size int) error {
			switch num {
			case 1: // source.address.socket_address.address
				b, err := m.readBytes(size)
				if err != nil {
					return err
				}
				return visitField(b, 1, func(address []byte) error {
					return visitField(address, 1, func(socket []byte) error {
						return visitField(socket, 2, func(text []byte) error { r.source = string(text); return nil })
					})
				})
			case 4: // request.http
				return m.visitFields(size, func(num protowire.Number, size int) error {
					if num != 2 {
						return nil
					}
					r.isHTTP = true
					return m.visitFields(size, func(num protowire.Number, size int) error {
						return r.readHTTPField(m, num, size)
					})
				})
			}
			return nil
		})
	})
}

// visitField calls f with the bytes of each occurrence of one field.
func visitField(b []byte, field protowire.Number, f func([]byte) error) error {
	return protofield.Each(b, func(num protowire.Number, text []byte, _ uint64) error {
		if num == field {
			return f(text)
		}
		return nil
	})
}

// readHTTPField reads a field of the HTTP request. It skips the body and other fields that are not needed.
func (r *checkRequest) readHTTPField(m *message, num protowire.Number, size int) error {
	var text *string
	switch num {
	case 2:
		text = &r.method
	case 3: // headers, a map
		r.joined = true
		return r.addHeader(m, size)
	case 4:
		text = &r.path
	case 5:
		text = &r.host
	case 7:
		text = &r.query
	case 13: // header_map, which Envoy sends instead with encode_raw_headers
		return m.visitFields(size, func(num protowire.Number, size int) error {
			if num != 1 {
				return nil
			}
			return r.addHeader(m, size)
		})
	default:
		return nil
	}
	b, err := m.readBytes(size)
	*text = string(b)
	return err
}

func (r *checkRequest) addHeader(m *message, size int) error {
	b, err := m.readBytes(size)
	if err != nil {
		return err
	}
	if err := protofield.Each(b, func(protowire.Number, []byte, uint64) error { return nil }); err != nil {
		return err
	}
	r.headers.add(b)
	return nil
}
