//go:build !race

package visitorpass_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

// TestPasses_AllocateNothing holds the calls that each request makes to no allocation. It is not parallel, because
// allocations of other tests would count.
func TestPasses_AllocateNothing(t *testing.T) {
	client := netip.MustParseAddr("192.0.2.7")
	p := passesAt("", noon)
	own := p.Issue(noon, client) + "; " + p.Grant(noon, "member")
	header := map[string][]string{"Cookie": {strings.Repeat("a=b; ", 20)}}
	if n := testing.AllocsPerRun(100, func() {
		p.Age(noon, own, client)
		p.Granted(noon, own)
		visitorpass.Strip(header)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
