package fleet

import (
	"testing"

	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
)

// TestSidecar_IsNotReadyBeforeFirstRead states that a limiter that has just started is not ready, because it does not
// know the blocks of operators. A limiter whose Redis fails uses its failure policy, and is ready.
func TestSidecar_IsNotReadyBeforeFirstRead(t *testing.T) {
	read, failed := rediscontrol.FollowStats{Syncs: 1}, rediscontrol.FollowStats{Errors: 1}
	for _, tt := range []struct {
		name  string
		stats rediscontrol.Stats
		ready bool
	}{
		{"nothing asked", rediscontrol.Stats{}, false},
		{"overrides only", rediscontrol.Stats{Overrides: read}, false},
		{"hot keys only", rediscontrol.Stats{Hot: read}, false},
		{"both", rediscontrol.Stats{Overrides: read, Hot: read}, true},
		{"Redis fails", rediscontrol.Stats{Overrides: failed, Hot: failed}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := checkSynced(tt.stats); (err == nil) != tt.ready {
				t.Errorf("error %v, ready should be %v", err, tt.ready)
			}
		})
	}
}
