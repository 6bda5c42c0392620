package envoy

import (
	"net/url"
	"testing"

	"pgregory.net/rapid"
)

func descriptorOf(pairs ...string) *descriptor {
	d := &descriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.entries = append(d.entries, entry{pairs[i], pairs[i+1]})
	}
	return d
}

func TestRequestOf_ReadsEachKindOfEntry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		entries                      []string
		method, host, target, client string
		agent                        string
	}{
		"parameter": {[]string{"id", "42"}, "GET", "", "/shop?id=42", "-", ""},
		"two":       {[]string{"id", "42", "lang", "en"}, "GET", "", "/shop?id=42&lang=en", "-", ""},
		"escaped": {[]string{"i d", "a&b=c%d;ü\xff"}, "GET", "", "/shop?i%20d=a%26b%3Dc%25d%3B%C3%BC%FF", "-",
			""},
		"plus":            {[]string{"id", "a+b c"}, "GET", "", "/shop?id=a+b%20c", "-", ""},
		"empty value":     {[]string{"id", ""}, "GET", "", "/shop?id=", "-", ""},
		"resource":        {[]string{"generic_key", "/topic", "id", "42"}, "GET", "", "/topic?id=42", "-", ""},
		"resource's name": {[]string{"generic_key", "to pic?"}, "GET", "", "/to%20pic%3F", "-", ""},
		"path": {[]string{"path", "/topic?id=%34", ":method", "PUT", ":authority", "h", "id", "9"}, "PUT",
			"h", "/topic?id=%34", "-", ""},
		"client": {[]string{"remote_address", "192.0.2.7"}, "GET", "", "/shop", "192.0.2.7", ""},
		"masked client": {[]string{"masked_remote_address", "2001:db8::/56", "id", "1"}, "GET", "", "/shop?id=1",
			"2001:db8::", ""},
		"header": {[]string{"header.User-Agent", "bot", "id", "1"}, "GET", "", "/shop?id=1", "-", "bot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := requestOf("shop", descriptorOf(tc.entries...)).request
			if r.Method != tc.method || r.Host != tc.host || r.Target != tc.target || r.Client.String() != tc.client ||
				r.Header.Get("user-agent") != tc.agent {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Any text that a client writes into a value stays in that value.
func TestRequestOf_KeepsValuesApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()),
			func(b []byte) string { return string(b) })).Draw(t, "value")
		r := requestOf("shop", descriptorOf("id", value, "lang", "en")).request
		u, err := url.ParseRequestURI(r.Target)
		if err != nil {
			t.Fatal(err)
		}
		q, err := url.ParseQuery(u.RawQuery)
		if err != nil || u.Path != "/shop" || len(q) != 2 || q.Get("lang") != "en" {
			t.Fatalf("%q: %v %v", r.Target, q, err)
		}
		plus := []byte(value) // Envoy's plus sign is read as a space here
		for i := range plus {
			if plus[i] == '+' {
				plus[i] = ' '
			}
		}
		if q.Get("id") != string(plus) {
			t.Fatalf("%q, want %q", q.Get("id"), plus)
		}
	})
}
