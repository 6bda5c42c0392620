package lua_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/lua"
)

// joined is where embed.go cuts a file, or writes something else.
var joined = regexp.MustCompile(`(?m)^.*(--> |_of\().*$`)

// Every file begins with its name and its purpose, uses nothing that Redis 6 or miniredis lacks, and is part of a
// script, because a file that is not embedded is a copy that goes stale.
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
		if !strings.HasPrefix(string(text), "-- "+name+": ") {
			t.Errorf("%s does not begin with its name and what it does", f.Name())
		}
		for i, piece := range joined.Split(string(text), -1) {
			piece = strings.TrimSpace(piece)
			if !strings.HasPrefix(piece, "-- limit_") && !strings.Contains(all, piece) {
				t.Errorf("%s: piece %d is in no script: %.60s", f.Name(), i, piece)
			}
		}
		for _, absent := range []string{"cmsgpack", "struct.", "bit.", "#!lua", "replicate_commands"} {
			if strings.Contains(string(text), absent) {
				t.Errorf("%s uses %s", f.Name(), absent)
			}
		}
	}
}

// A kind of state is one file: every script that judges, adopts or refunds states chooses
// its functions.
func TestEveryKindIsChosen(t *testing.T) {
	t.Parallel()
	for script, uses := range map[string][]string{
		lua.Decide(): {"judge", "taken"}, lua.DecideMany(): {"taken"}, lua.Refund(): {"judge", "taken", "refund"},
	} {
		for _, kind := range []string{"t", "f", "s", "a", "l", "w"} {
			for _, use := range uses {
				if name := kind + "_" + use; !strings.Contains(script, "local function "+name+"(") ||
					!strings.Contains(script, " == '"+kind+"' and "+name) {
					t.Errorf("%s is not defined and chosen in\n%.80s", name, script)
				}
			}
		}
		if found := regexp.MustCompile(`(?m)^[^-]*\w_of\(`).FindString(script); found != "" {
			t.Errorf("%q is not replaced", found)
		}
	}
}
