package rediscontrol

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

func (s *OverrideStore) writeChange(ctx context.Context, change rules.Change, expected string) (written, error) {
	var entry string
	var until time.Time
	if change.After != nil {
		text, err := encode(change.After)
		if err != nil {
			return written{}, err
		}
		entry, until = text, change.After.Until
	}
	audit, err := encode(change)
	if err != nil {
		return written{}, err
	}
	return s.write(ctx, change.ID, expected, entry, until, audit)
}

// written is the reply of the script: its code, the number of overrides that had ended, and the version that it made.
type written struct{ code, trimmed, version int64 }

// write runs the script. It takes one round trip, more only after an upgrade.
func (s *OverrideStore) write(ctx context.Context, id, expected, entry string, until time.Time,
	audit string) (written, error) {
	args := append(s.auditArgs(), id, expected, entry, endOf(until), audit, MaxOverrides, s.feed.knownState().version,
		maxLog)
	reply, err := s.runAuditScript(ctx, writeOverride, 5, args)
	if err != nil {
		return written{}, err
	}
	return written{reply[0], reply[1], reply[2]}, nil
}
