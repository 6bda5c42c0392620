package hottype_test

import (
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// TestHostName_TellsWhichFieldsAreSound checks the fields that name one host. Servers read other fields in different
// ways, so those may name any host.
func TestHostName_TellsWhichFieldsAreSound(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"": "", "a.example": "a.example", "A.Example:80": "A.Example", "a.example.:": "a.example", "a.example..": "a.example",
		"[::1]:80": "[::1]", "[::1]": "[::1]", "10.0.0.1:8080": "10.0.0.1", "a_b-c": "a_b-c", ":80": "",
	} {
		if name, sound := hottype.HostName(field); name != want || !sound {
			t.Errorf("%q: %q, sound %t", field, name, sound)
		}
	}
	for _, field := range []string{"a.example:80:1", "a.example:x", "a.example:80 ", "x@a.example", "a.example/x",
		"a b", "a.example,b.example", "[::1", "[a.example]", "[::1]x", "a.example%00", "caf\xc3\xa9", "a.example\t",
		"::1"} {
		if name, sound := hottype.HostName(field); sound {
			t.Errorf("%q is sound: %q", field, name)
		}
	}
}
