package aggregate

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/hotset"
)

// A full hot set is logged once, with the number of keys without a place, and again after it had room for a minute.
func TestFullAlarm_LogsOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a := fullAlarm{log: slog.New(slog.NewTextHandler(&log, nil)), last: map[string]time.Time{}}
	now := time.Unix(1700000000, 0)
	full := []hotset.Full{{Rule: "few", Places: 5, Unplaced: 1}}
	for _, step := range []struct {
		after time.Duration
		full  []hotset.Full
		lines int
	}{{0, full, 1}, {time.Second, full, 1}, {30 * time.Second, nil, 1}, {60 * time.Second, full, 1},
		{119 * time.Second, nil, 1}, {120 * time.Second, nil, 2}, {121 * time.Second, full, 3}} {
		a.check(now.Add(step.after), step.full)
		if n := strings.Count(log.String(), "\n"); n != step.lines {
			t.Errorf("after %v: %d lines", step.after, n)
		}
	}
	if !strings.Contains(log.String(), "rule=few max_hot=5 unplaced=1") {
		t.Error(log.String())
	}
}
