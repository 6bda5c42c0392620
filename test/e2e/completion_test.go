package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/test/internal/program"
)

// The packaged completions are equal to the printed ones, but for the path of the program, which the printed ones name.
func TestPackagedCompletions_EqualPrintedOnes(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(program.Ours(t), "hotparam")
	for shell, file := range map[string]string{"bash": "hotparam.bash", "fish": "hotparam.fish"} {
		printed, err := exec.Command(binary, "completion", shell).Output()
		if err != nil {
			t.Fatalf("%s: %v", shell, err)
		}
		packaged, err := os.ReadFile(filepath.Join("../../deploy/completions", file))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.ReplaceAll(string(printed), binary, "hotparam"); strings.TrimSpace(want) !=
			strings.TrimSpace(string(packaged)) {
			t.Errorf("%s: packaged\n%s\nprinted\n%s", shell, packaged, want)
		}
	}
}
