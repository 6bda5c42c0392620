package run

import (
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/rules"
)

// enough makes the check that there are counters for the rates that the rules,
// or the settings, say they expect.
func enough(cfg config.Detect) func(*rules.Set) error {
	return func(set *rules.Set) error {
		return detect.Check(set, detect.Options{Counters: cfg.Counters, MaxRate: cfg.MaxRate, Lateness: cfg.Lateness})
	}
}
