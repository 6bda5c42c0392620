package lua_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/lua"
)

// Every file begins by saying what it is, takes nothing that Redis 6 or
// miniredis lacks, and is a part of some script: a file that nobody embeds is a
// copy that goes stale.
func TestEveryFileIsEmbedded(t *testing.T) {
	t.Parallel()
	all := lua.Decide() + lua.DecideMany() + lua.CLThrottle() + lua.InFlight() + lua.Refund() + lua.Exchange() +
		lua.ClaimHot() + lua.PublishHot() +
		lua.WriteOverride() + lua.RestoreOverrides() + lua.WriteReport() + lua.WriteCommand() + lua.PublishBounds() +
		lua.WriteRules()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".lua")
		if !ok {
			continue
		}
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(strings.TrimSpace(string(text)), "-- "+name+": ") {
			t.Errorf("%s does not begin with its name and what it does", f.Name())
		}
		if !strings.Contains(all, string(text)) {
			t.Errorf("%s is in no script", f.Name())
		}
		for _, absent := range []string{"cmsgpack", "struct.", "bit.", "#!lua", "replicate_commands"} {
			if strings.Contains(string(text), absent) {
				t.Errorf("%s uses %s", f.Name(), absent)
			}
		}
	}
}
