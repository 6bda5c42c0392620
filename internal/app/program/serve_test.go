package program

import (
	"log/slog"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

func TestLocalOptions_LimitNothingByDefaultRulesWhileLearning(t *testing.T) {
	t.Parallel()
	p, err := config.Build(&config.Serve{}, "hotparam", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse(nil); err != nil {
		t.Fatal(err)
	}
	learn := func(config.Serve, func() *rules.Set, *httplimit.Clients, *slog.Logger) (Learner, error) {
		return nil, nil
	}
	for _, open := range []OpenLearner{nil, learn} {
		set := rules.Default()
		LocalOptions{File: p, Learn: open}.shadowDefaultRules(set)
		if shadow := set.Rules[0].Limit.Mode == hottype.ModeShadow; shadow != (open != nil) {
			t.Errorf("learning %v: mode %q", open != nil, set.Rules[0].Limit.Mode)
		}
	}
}
