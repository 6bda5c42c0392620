package httplimit

import (
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// TestHeaderLine_AgreesInEveryForm checks that all forms in which listeners get header fields distinguish a field of
// one line from one of several, for any lines. A gateway that joins lines has removed the white space at their ends.
func TestHeaderLine_AgreesInEveryForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.Custom(func(t *rapid.T) string {
			words := rapid.SliceOfN(rapid.SampledFrom([]string{"victim", "x", ", ", " ", "y"}), 0, 3)
			return strings.Trim(strings.Join(words.Draw(t, "words"), ""), " ,")
		})
		lines := rapid.SliceOfN(line, 0, 3).Draw(t, "lines")
		wire, gateway, joined := http.Header{}, Headers{{"Other", "a,b"}}, Headers{{"Other", "a,b"}}
		for _, text := range lines {
			wire.Add("X-Account", text)
			gateway = append(gateway, HeaderField{"x-account", text})
		}
		if len(lines) > 0 {
			joined = append(joined, HeaderField{"x-account", strings.Join(lines, ",")})
		}
		want := ""
		if len(lines) == 1 {
			want = lines[0]
		}
		for name, h := range map[string]hottype.Header{
			"net/http": wire, "HAProxy": &gateway, "Envoy": JoinedHeaders{&joined},
		} {
			if text, several := hottype.HeaderLine(h, "X-Account"); several != (len(lines) > 1) || text != want {
				t.Fatalf("%s: lines %q are %q, several %t", name, lines, text, several)
			}
		}
	})
	if text, several := hottype.HeaderLine(nil, "X-Account"); text != "" || several {
		t.Error("no fields have a line")
	}
}
