package replay

import (
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
)

type brokenCounter struct{}

func (brokenCounter) AddFrom([]byte, int64, int64, hottype.Client) { panic("broken") }

func (brokenCounter) AddCost([]byte, int64, int64, int64, hottype.Client) { panic("broken") }

// A report with requests about which nothing was decided is wrong, so that Run returns an error.
func TestRun_FailsAfterPanics(t *testing.T) {
	t.Parallel()
	cfg, err := Config{Rules: rules.Default()}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(cfg)
	e.gate = gate.New(gate.Config{Rules: cfg.Rules, Hot: &e.hotSet, Counter: brokenCounter{}})
	const log = `192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET /topic?id=1 HTTP/1.1" 200 5` + "\n"
	_, err = e.run(t.Context(), cfg, []Source{{Name: "log", Reader: strings.NewReader(log)}})
	if err == nil || !strings.Contains(err.Error(), "deciding panicked 1 times") {
		t.Errorf("%v", err)
	}
}
