package hottype

import "testing"

func TestTargetFault(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{
		"", "/", "*", "/topic?id=1;2", "http://h/topic?id=1", "https://u:p@[::1]:8/x?u=http://y", "ws:///x", "/a:/b",
		"/?x=http:/y",
		"/caf\xc3\xa9?\xff", "/%23%5C%20", "topic?x=a:/b",
	} {
		if got := InvalidTargetReason("GET", ok); got != "" {
			t.Errorf("%q: %s", ok, got)
		}
	}
	for _, bad := range []string{
		"/topic?id=42#x", "/a b", "/a\x00", "/a\x7f", "/a\t", "/.\\topic", "http:/topic", "HTTP:/topic?id=1",
		"http:topic", "h:80", "x:", "http:\\\\h/x",
	} {
		if InvalidTargetReason("GET", bad) == "" {
			t.Errorf("%q has no fault", bad)
		}
	}
	if got := InvalidTargetReason("CONNECT", "h:80"); got != "" {
		t.Errorf("CONNECT: %s", got)
	}
}

// TestFaultyByteAtAnyPlace: a search of eight bytes at once finds the same faulty bytes as a search of single bytes,
// and accepts ordinary bytes.
func TestFaultyByteAtAnyPlace(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		for n := 1; n < 20; n++ {
			for at := 1; at < n; at++ {
				target := []byte("/topic?id=~!_xyz]}[")[:n]
				target[at] = byte(c)
				bad := c <= ' ' || c == 0x7f || c == '#' || c == '\\'
				if got := InvalidTargetReason("GET", string(target)) != ""; got != bad {
					t.Fatalf("%q: faulty %v, want %v", target, got, bad)
				}
				if n >= 8 && isPlainTarget(string(target)) != (!bad && c < 0x80) {
					t.Fatalf("%q: plain %v", target, bad)
				}
			}
		}
	}
}
