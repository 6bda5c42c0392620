package envoy

import (
	"errors"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

func marshal(t interface{ Fatal(...any) }, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Reading by hand and Go's protobuf agree on whatever both can read.
func TestDecodeAgreesWithProtobuf(t *testing.T) {
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

func TestDecodeCheck(t *testing.T) {
	t.Parallel()
	in := checkOf("192.0.2.7", &authv3.AttributeContext_HttpRequest{
		Id: "7", Method: "PUT", Path: "/topic?id=42", Host: "news.example", Query: "q", Body: "b", Size: 9,
		Headers: map[string]string{"x-forwarded-for": "1.2.3.4"},
		HeaderMap: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: "a", Value: "b"},
			{Key: "c", RawValue: []byte("\xff")}}},
	})
	var got checkRequest
	if err := got.unmarshal(marshal(t, in)); err != nil {
		t.Fatal(err)
	}
	if got.source != "192.0.2.7" || got.method != "PUT" || got.path != "/topic?id=42" || got.host != "news.example" ||
		got.query != "q" || got.headers.Get("X-Forwarded-For") != "1.2.3.4" || got.headers.Get("A") != "b" ||
		got.headers.Get("c") != "\xff" || len(got.headers) != 3 {
		t.Errorf("%+v", got)
	}
}

func TestDecodeIsBounded(t *testing.T) {
	t.Parallel()
	many := &ratelimitv3.RateLimitRequest{Domain: "d"}
	for range maxDescriptors + 1 {
		many.Descriptors = append(many.Descriptors, &commonv3.RateLimitDescriptor{})
	}
	wide := &commonv3.RateLimitDescriptor{}
	for range maxEntries + 1 {
		wide.Entries = append(wide.Entries, &commonv3.RateLimitDescriptor_Entry{})
	}
	headers := &corev3.HeaderMap{}
	for range maxHeaders + 1 {
		headers.Headers = append(headers.Headers, &corev3.HeaderValue{})
	}
	for name, tc := range map[string]struct {
		in   proto.Message
		into interface{ unmarshal([]byte) error }
	}{
		"100 descriptors": {many, new(rateLimitRequest)},
		"100 entries": {&ratelimitv3.RateLimitRequest{Descriptors: []*commonv3.RateLimitDescriptor{wide}},
			new(rateLimitRequest)},
		"1000 headers": {checkOf("::1", &authv3.AttributeContext_HttpRequest{HeaderMap: headers}),
			new(checkRequest)},
	} {
		if err := tc.into.unmarshal(marshal(t, tc.in)); err == nil ||
			!strings.Contains(err.Error(), "more than "+name) {
			t.Errorf("%s: %v", name, err)
		}
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
		var check checkRequest
		errLimit, errCheck := limit.unmarshal(b), check.unmarshal(b)
		// What protobuf reads, this reads; it may read more: text that is no UTF-8.
		if err := proto.Unmarshal(b, new(ratelimitv3.RateLimitRequest)); err == nil && errors.Is(errLimit, errWire) {
			t.Errorf("rate limit request: %v", errLimit)
		}
		if err := proto.Unmarshal(b, new(authv3.CheckRequest)); err == nil && errors.Is(errCheck, errWire) {
			t.Errorf("check request: %v", errCheck)
		}
	})
}
