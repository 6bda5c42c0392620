package redisclient

import (
	"strings"
	"testing"
)

func TestKeys_CarryTheHashTag(t *testing.T) {
	t.Parallel()
	k := NewKeys("news")
	seen := map[string]bool{}
	for _, name := range []string{
		k.HotVersion(), k.HotIndex(), k.HotSet("a"), k.HotLog("a"), k.HotReceived("a"), k.HotEpoch("a"), k.HotNotice(),
		k.Overrides(), k.OverrideUntil(), k.OverrideVersion(), k.OverrideAudit(), k.OverrideNotice(),
		k.OverrideChanges(), k.OverrideChangeIndex(), k.OverrideAuthors(), k.OverrideRemoved(), k.OverrideAuditState(),
		k.OverrideLog(),
		k.Report("a"), k.ReportIndex(), k.Commands(), k.CommandNotice(), k.PassSecret(7), k.PassSecret(8),
	} {
		if !strings.HasPrefix(name, "hp:{news}:") || seen[name] {
			t.Errorf("%q", name)
		}
		seen[name] = true
	}
}
