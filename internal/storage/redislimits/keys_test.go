package redislimits

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

func TestLimitState_HasDocumentedForm(t *testing.T) {
	t.Parallel()
	k := newKeys("news")
	address := hottype.ClientFromAddr(netip.MustParseAddr("192.0.2.7"))
	for _, c := range []struct {
		subject limit.Subject
		want    string
	}{
		{limit.Subject{Space: "hot", Name: "topic?id=42"}, "hp:{news}:limit:hot:k:topic?id=42"},
		{limit.Subject{Space: "hot", Name: "{x}"}, "hp:{news}:limit:hot:k:{x}"},
		{limit.Subject{Space: "hot"}, "hp:{news}:limit:hot:k:"},
		{limit.Subject{Space: "ip_fixed", Client: address}, "hp:{news}:limit:ip_fixed:a:192.0.2.7"},
		{limit.Subject{Space: "both", Client: address, Name: "topic"}, "hp:{news}:limit:both:a:192.0.2.7 topic"},
		{limit.Subject{Space: "ip_fixed", Client: hottype.Client{Name: "anna"}}, "hp:{news}:limit:ip_fixed:c:4:anna"},
		{limit.Subject{Space: "s", Client: hottype.Client{Name: "anna.example"}}, "hp:{news}:limit:s:c:12:anna.example"},
		{limit.Subject{Space: "a:b", Name: "x"}, "hp:{news}:limit:a_b:h:"},
		{limit.Subject{Space: "hot", Name: strings.Repeat("x", 600)}, "hp:{news}:limit:hot:h:"},
	} {
		got := k.limitState(&c.subject)
		if hashed := strings.HasSuffix(c.want, ":h:"); hashed && len(got) == len(c.want)+64 {
			got = got[:len(c.want)]
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.subject, got, c.want)
		}
	}
}

// Keys have the documented form, because programs of other versions read them, and every shard has a tag of its own.
func TestKeys_HaveDocumentedForm(t *testing.T) {
	t.Parallel()
	k := newKeys("news")
	who := limit.Subject{Space: "ip_fixed", Client: hottype.ClientFromAddr(netip.MustParseAddr("192.0.2.7"))}
	for got, want := range map[string]string{
		k.sumsKey(60_000_000, 1_795_233_720_000_000, &who): "hp:{news}:limit:sums1:60000000:1795233720000000:" +
			"ip_fixed:a:192.0.2.7",
		k.blockKey("hp:{news}:limit:hot:k:topic?id=42"): "hp:{news}:block:hot:k:topic?id=42",
		k.throttleKey("user123"):                        "hp:{news}:limit:cl_throttle:k:user123",
		k.inFlightKey("export"):                         "hp:{news}:limit:in_flight:k:export",
		shardKeys("news", 15).limitState(&who):          "hp:{news/15}:limit:ip_fixed:a:192.0.2.7",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// The shard is a part of the protocol: programs that disagree would count apart.
	if n := [...]int{shardOf([]byte("a:192.0.2.7")), shardOf([]byte("k:topic?id=42")), shardOf(nil)}; n !=
		[...]int{7, 10, 5} {
		t.Errorf("shards %v", n)
	}
}

// Different subjects have different keys, with any names that strangers choose.
func TestLimitStateIsInjective(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{"", "a", "hot", "a:k", ":", "1:a", "a ", " a", "192.0.2.7", "k:", "h:", "_",
		"a_k", strings.Repeat("x", 513)})
	address := rapid.SampledFrom([]netip.Addr{{}, netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("::1"),
		netip.MustParseAddr("fe80::1%a b")})
	subject := rapid.Custom(func(rt *rapid.T) limit.Subject {
		return limit.Subject{Space: part.Draw(rt, "space"), Name: part.Draw(rt, "name"),
			Client: hottype.Client{Addr: address.Draw(rt, "address"), Name: part.Draw(rt, "client")}}
	})
	k, seen := newKeys("n"), map[string]limit.Subject{}
	rapid.Check(t, func(rt *rapid.T) {
		for range 50 {
			s := subject.Draw(rt, "subject")
			key := k.limitState(&s)
			if other, ok := seen[key]; ok && other != s {
				rt.Fatalf("%+v and %+v are both %q", other, s, key)
			}
			if seen[key] = s; len(key) > 600 {
				rt.Fatalf("%+v: a key of %d bytes", s, len(key))
			}
		}
	})
}
