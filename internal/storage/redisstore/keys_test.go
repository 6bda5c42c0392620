package redisstore

import (
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/limit"
)

func TestEveryKeyCarriesTheHashTag(t *testing.T) {
	t.Parallel()
	k := newKeys("news")
	seen := map[string]bool{}
	for _, name := range []string{
		k.hotVersion(), k.hotIndex(), k.hotSet("a"), k.hotLog("a"), k.hotEpoch("a"), k.hotNotice(),
		k.overrides(), k.overrideUntil(), k.overrideVersion(), k.overrideAudit(), k.overrideNotice(),
		k.report("a"), k.reportIndex(),
		k.limitState(&limit.Subject{Space: "hot", Name: "{x}"}),
	} {
		if !strings.HasPrefix(name, "hp:{news}:") || seen[name] {
			t.Errorf("%q", name)
		}
		seen[name] = true
	}
}
