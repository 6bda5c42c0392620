package hotset_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
)

// A publisher that reads the partitions of a dead publisher, and has judged them for a whole window, ends its keys. It
// does not end the keys of a publisher that is received, keys of a partition that it does not read, or any key while it
// receives no counts or has stopped itself.
func TestReplica_EndsKeysOfAPublisherThatIsSilent(t *testing.T) {
	t.Parallel()
	const key = "topic?id=1"
	mine := int(canon.FNV1a(key) % 8)
	owns := func(partitions ...int) report.Partitions {
		p := report.Partitions{Count: 8, Mask: make([]byte, 1)}
		for _, i := range partitions {
			p.Mask[0] |= 1 << i
		}
		return p
	}
	type set = report.HotSet
	const long = 10 * time.Second
	for name, test := range map[string]struct {
		silent time.Duration // of the former owner
		change func(former, owner *set)
		stays  bool
	}{
		"the former owner is dead":     {long, func(_, _ *set) {}, false},
		"the former owner has stopped": {time.Second, func(f, _ *set) { f.Last = true }, false},
		"the former owner is heard":    {time.Second, func(_, _ *set) {}, true},
		"another partition":            {long, func(_, o *set) { o.Judged = owns((mine + 1) % 8) }, true},
		"nothing judged yet":           {long, func(_, o *set) { o.Judged = report.Partitions{} }, true},
		"the new owner has no counts":  {long, func(_, o *set) { o.NoInput = true }, true},
		"the new owner has stopped":    {long, func(_, o *set) { o.Last = true }, true},
		"the key is hot there, too":    {long, func(f, o *set) { o.Keys = slices.Clone(f.Keys) }, true},
	} {
		var m hotset.Replica
		began := time.Unix(1_800_000_000, 0)
		former := report.HotSet{Version: 1, At: began, Keys: []hottype.HotKey{{Key: key, Rule: "topic", Rate: 100,
			Until: began.Add(5 * time.Second)}}}
		now := began.Add(test.silent)
		owner := report.HotSet{Version: 2, At: now, Judged: owns(mine)}
		test.change(&former, &owner)
		m.Replace("a", former)
		m.Replace("b", owner)
		if got := m.Lookup([]byte(key), now) != nil; got != test.stays {
			t.Errorf("%s: hot %v", name, got)
		}
		if _, ok := m.Age(now); !ok || len(former.Keys) != 1 {
			t.Errorf("%s: %v", name, former.Keys)
		}
	}
}
