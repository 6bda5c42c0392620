package run

import (
	"testing"

	"github.com/hotparam/pipeline/internal/storage/redisfeed"
)

// TestNoTrafficBeforeTheFirstRead: a limiter that has just started does not know the blocks that people set. One
// whose Redis fails goes by its failure policy, and is ready.
func TestNoTrafficBeforeTheFirstRead(t *testing.T) {
	read, failed := redisfeed.FollowStats{Syncs: 1}, redisfeed.FollowStats{Errors: 1}
	for _, tt := range []struct {
		name  string
		stats redisfeed.Stats
		ready bool
	}{
		{"nothing asked", redisfeed.Stats{}, false},
		{"overrides only", redisfeed.Stats{Overrides: read}, false},
		{"hot keys only", redisfeed.Stats{Hot: read}, false},
		{"both", redisfeed.Stats{Overrides: read, Hot: read}, true},
		{"Redis fails", redisfeed.Stats{Overrides: failed, Hot: failed}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := unread(tt.stats); (err == nil) != tt.ready {
				t.Errorf("error %v, ready should be %v", err, tt.ready)
			}
		})
	}
}
