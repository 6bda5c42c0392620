package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/report"
)

func TestDashboard_HasEachDenyingReason(t *testing.T) {
	t.Parallel()
	module := newWorld(t, nil).ask(http.MethodGet, "/assets/reasons.js", "").Body.String()
	for r := range (report.Denials{}).All() {
		if entry := fmt.Sprintf("%q:%q", r, r.Info().Short); r.Info().Short == "" || !strings.Contains(module, entry) {
			t.Errorf("%s is not in %s", entry, module)
		}
	}
}
