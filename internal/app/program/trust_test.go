package program

import (
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Listeners for gateways believe the fields of a question, because only gateways can ask. The middleware and the proxy
// do not believe the fields of a client.
func TestListeners_BelieveFieldsOfGatewaysAlone(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("rules.yaml", []byte(keysOfAnyLength))
	if err != nil {
		t.Fatal(err)
	}
	var seen []hottype.Request
	g := &answering{set: set, v: hottype.Verdict{Allowed: true},
		seen: func(r *hottype.Request) { seen = append(seen, *r) }}
	for name, ask := range dialects(t, g, httplimit.Responder{}) {
		for _, field := range []string{"a", "a\r\nX-Forwarded-For: 127.0.0.1", "a\r\nForwarded: for=127.0.0.1"} {
			direct := name == "proxy" || name == "middleware"
			if !direct && strings.Contains(field, "\r") {
				continue // a gateway replaces the field
			}
			seen = nil
			ask(&asked{target: "/a?b=c", field: field, accept: "*/*"})
			if len(seen) != 1 || seen[0].FromProxy != !direct {
				t.Errorf("%s, %q: %+v", name, field, seen)
			}
		}
	}
}
