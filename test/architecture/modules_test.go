package architecture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The go.sum of an importer of the product lists all modules that the product's go.mod requires, so browser drivers,
// brokers and mocks belong to the module of test/.
func TestProductNeedsNoTestServers(t *testing.T) {
	t.Parallel()
	banned := []string{
		"github.com/chromedp/", "github.com/twmb/franz-go", "github.com/alicebob/miniredis",
		"github.com/santhosh-tekuri/jsonschema", "github.com/anishathalye/porcupine", "github.com/ulule/limiter",
		"github.com/envoyproxy/ratelimit",
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, module := range banned {
			if strings.Contains(string(text), module) {
				t.Errorf("%s names %s: what needs it belongs into test/, which is a module of its own", name, module)
			}
		}
	}
}
