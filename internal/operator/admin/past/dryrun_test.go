package past

import (
	"testing"

	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/rules"
)

// By its share or a surge a key stays as hot as it was.
func TestStateBy_KeepsStateByShareAndSurge(t *testing.T) {
	t.Parallel()
	surging := &history.KeyMinute{State: history.Hot, Peak: 30, Clients: 50}
	before := rules.HotCriteria{Rate: 200, Surge: 10, MinRate: 20}
	lower, other := before, before
	lower.Rate, other.Surge = 100, 20
	if got := stateBy(before, lower, surging); got != history.Hot {
		t.Errorf("with the same surge: %s", got)
	}
	if got := stateBy(before, other, surging); got != history.Cold {
		t.Errorf("with another surge: %s", got)
	}
}
