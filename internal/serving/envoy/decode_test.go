package envoy

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/protofield"
)

func marshal(t interface{ Fatal(...any) }, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Decoding by hand and Go's protobuf agree on every message that both can read.
func TestUnmarshal_AgreesWithProtobuf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		in := &ratelimitv3.RateLimitRequest{Domain: text.Draw(t, "domain"), HitsAddend: rapid.Uint32().Draw(t, "hits")}
		for range rapid.IntRange(0, 3).Draw(t, "descriptors") {
			d := &commonv3.RateLimitDescriptor{IsNegativeHits: rapid.Bool().Draw(t, "negative")}
			for range rapid.IntRange(0, 3).Draw(t, "entries") {
				d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: text.Draw(t, "key"),
					Value: text.Draw(t, "value")})
			}
			if rapid.Bool().Draw(t, "own hits") {
				d.HitsAddend = wrapperspb.UInt64(rapid.Uint64().Draw(t, "hits"))
			}
			if rapid.Bool().Draw(t, "limit") {
				d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: rapid.Uint32().
					Draw(t, "requests"), Unit: typev3.RateLimitUnit_HOUR}
			}
			in.Descriptors = append(in.Descriptors, d)
		}
		var got rateLimitRequest
		if err := got.unmarshal(marshal(t, in)); err != nil {
			t.Fatal(err)
		}
		if got.domain != in.Domain || got.hits != uint64(in.HitsAddend) || len(got.descriptors) != len(in.Descriptors) {
			t.Fatalf("%+v, want %v", got, in)
		}
		for i, d := range got.descriptors {
			want := in.Descriptors[i]
			if d.hits != want.HitsAddend.GetValue() || d.negative != want.IsNegativeHits ||
				(d.own != nil) != (want.Limit != nil) ||
				d.own != nil && *d.own != (ownLimit{requests: uint64(want.Limit.RequestsPerUnit), unit: 3}) ||
				len(d.entries) != len(want.Entries) {
				t.Fatalf("%+v, want %v", d, want)
			}
			for j, e := range d.entries {
				if e.key != want.Entries[j].Key || e.value != want.Entries[j].Value {
					t.Fatalf("%+v, want %v", e, want.Entries[j])
				}
			}
		}
	})
}

func checkOf(address string, h *authv3.AttributeContext_HttpRequest) *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: address,
				PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4711}},
		}}},
		Request: &authv3.AttributeContext_Request{Http: h},
	}}
}

func TestReceiveMessage_ReadsEachField(t *testing.T) {
	t.Parallel()
	in := checkOf("192.0.2.7", &authv3.AttributeContext_HttpRequest{
		Id: "7", Method: "PUT", Path: "/topic?id=42", Host: "news.example", Query: "q", Body: "b", Size: 9,
		Headers: map[string]string{"x-forwarded-for": "1.2.3.4"},
		HeaderMap: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: "a", Value: "b"},
			{Key: "c", RawValue: []byte("\xff")}}},
	})
	got, err := receiveCheck(marshal(t, in))
	if err != nil {
		t.Fatal(err)
	}
	if got.source != "192.0.2.7" || got.method != "PUT" || got.path != "/topic?id=42" || got.host != "news.example" ||
		got.query != "q" || got.headers.Get("X-Forwarded-For") != "1.2.3.4" || got.headers.Get("A") != "b" ||
		got.headers.Get("c") != "\xff" || got.headers.count != 3 || !got.isHTTP {
		t.Errorf("%+v", got)
	}
}

// parts is a source that returns the bytes of a message, each read in parts of one size.
type parts struct {
	b    []byte
	size int
}

func (p *parts) ReadMessageHeader([]byte) error { return io.EOF }

func (p *parts) Read(n int) (data mem.BufferSlice, err error) {
	for n > 0 && err == nil {
		part := min(n, p.size, len(p.b))
		if part == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		data, p.b, n = append(data, mem.SliceBuffer(p.b[:part])), p.b[part:], n-part
	}
	return data, nil
}

// messageOf returns a message that comes in parts.
func messageOf(b []byte, size int) *message {
	a := &account{most: CallsBound}
	return &message{from: &parts{b, size}, share: &share{account: a}, size: len(b), left: len(b)}
}

func receiveCheck(b []byte) (*checkRequest, error) {
	in := new(checkRequest)
	return in, in.receiveMessage(messageOf(b, 1000))
}

// A check is read in constant memory for any body that Envoy adds, and a field is found behind any number of others.
func TestReceiveMessage_SkipsBodies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		http := &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/topic?id=hot", Host: "news.example",
			Headers: map[string]string{"cookie": "a=b"}}
		for i := range rapid.SampledFrom([]int{0, 10, 990, 1000, 1001, 3000}).Draw(t, "fields") {
			http.Headers[fmt.Sprint("x-", i)] = "v"
		}
		body := strings.Repeat("z", rapid.SampledFrom([]int{0, chunk - 1, chunk, 1 << 20, 3 << 20}).Draw(t, "body"))
		if rapid.Bool().Draw(t, "raw") {
			http.RawBody = []byte(body)
			http.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: "X-Last", RawValue: []byte("l")}}}
		} else {
			http.Body = body
		}
		b := marshal(t, checkOf("192.0.2.7", http))
		m := messageOf(b, rapid.SampledFrom([]int{1, 7, 4096, 16384, chunk, len(b)}).Draw(t, "parts"))
		in := new(checkRequest)
		if err := in.receiveMessage(m); err != nil {
			t.Fatal(err)
		}
		want := len(http.Headers) + len(http.GetHeaderMap().GetHeaders())
		if in.path != http.Path || in.method != "GET" || in.host != http.Host || in.source != "192.0.2.7" ||
			in.headers.Get("Cookie") != "a=b" || in.headers.count != want ||
			(http.HeaderMap != nil) != (in.headers.Get("x-last") == "l") {
			t.Fatalf("%d fields, %q", in.headers.count, in.path)
		}
		if most := int64(200 + 12*in.headers.count); m.share.bytes > most || m.kept > int(most) {
			t.Fatalf("%d bytes are kept, want at most %d", m.share.bytes, most)
		}
	})
}

func TestReceiveMessage_RejectsTruncatedMessages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := marshal(t, checkOf("192.0.2.7", &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/topic"}))
		b = b[:rapid.IntRange(1, len(b)-1).Draw(t, "length")]
		if _, err := receiveCheck(b); !errors.Is(err, protofield.ErrMalformed) {
			t.Fatalf("%q: %v", b, err)
		}
	})
}

func TestReceiveMessage_KeepsAtMostOneMiB(t *testing.T) {
	t.Parallel()
	b := marshal(t, checkOf("192.0.2.7", &authv3.AttributeContext_HttpRequest{
		Path: "/topic", Headers: map[string]string{"a": strings.Repeat("z", maxKept)}}))
	if _, err := receiveCheck(b); !errors.Is(err, errTooLong) {
		t.Error(err)
	}
	m := messageOf(b, chunk)
	m.share.account.most = maxKept / 2
	if err := new(checkRequest).receiveMessage(m); !errors.Is(err, errTooLong) && !errors.Is(err, errBusy) {
		t.Error(err)
	}
}

// Descriptors beyond the bounds are passed over and counted; an error would let the request pass.
func TestUnmarshal_SkipsSurplusDescriptors(t *testing.T) {
	t.Parallel()
	wide := &commonv3.RateLimitDescriptor{}
	for range maxEntries + 1 {
		wide.Entries = append(wide.Entries, &commonv3.RateLimitDescriptor_Entry{Key: "id", Value: "hot"})
	}
	many := &ratelimitv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{wide}}
	for range maxDescriptors + 1 {
		many.Descriptors = append(many.Descriptors, &commonv3.RateLimitDescriptor{
			Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "id", Value: "1"}}})
	}
	var in rateLimitRequest
	if err := in.unmarshal(marshal(t, many)); err != nil || len(in.descriptors) != maxDescriptors || in.surplus != 3 ||
		len(in.descriptors[0].entries) != 0 || len(in.descriptors[maxDescriptors-1].entries) != 1 {
		t.Errorf("%d descriptors, %d surplus: %v", len(in.descriptors), in.surplus, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(marshal(f, checkOf("192.0.2.7", &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/"})))
	f.Add(marshal(f, &ratelimitv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{{
		Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "id", Value: "42"}}, HitsAddend: wrapperspb.UInt64(2),
	}}}))
	f.Add([]byte("\x0a\x01\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var limit rateLimitRequest
		errLimit := limit.unmarshal(b)
		_, errCheck := receiveCheck(b)
		// What protobuf reads, this reads; it may read more: text that is no UTF-8.
		readable := proto.Unmarshal(b, new(ratelimitv3.RateLimitRequest)) == nil
		if readable && errors.Is(errLimit, protofield.ErrMalformed) {
			t.Errorf("rate limit request: %v", errLimit)
		}
		readable = proto.Unmarshal(b, new(authv3.CheckRequest)) == nil
		if readable && errors.Is(errCheck, protofield.ErrMalformed) {
			t.Errorf("check request: %v", errCheck)
		}
	})
}
