package live

import (
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// A full hot set is among the troubles of each page. If the program judges keys, the number of keys without a place is
// known. Otherwise the hot keys are counted.
func TestFullSets_AreTrouble(t *testing.T) {
	t.Parallel()
	set := &rules.Set{Rules: []*rules.Rule{{Name: "few", Hot: rules.HotCriteria{MaxHot: 2}}, {Name: "many"}}}
	s := &Service{cfg: Config{Rules: func() *rules.Set { return set }}}
	hot := []hottype.HotKey{{Key: "a", Rule: "few"}, {Key: "b", Rule: "many"}}
	if got := s.fullSets(hot); len(got) != 0 {
		t.Errorf("%q", got)
	}
	hot = append(hot, hottype.HotKey{Key: "c", Rule: "few"})
	if got := s.fullSets(hot); len(got) != 1 || !strings.Contains(got[0], `"few" is full`) {
		t.Errorf("%q", got)
	}
	s.cfg.Full = func() []hotset.Full { return []hotset.Full{{Rule: "few", Places: 2, Unplaced: 7}} }
	if got := s.fullSets(nil); len(got) != 1 || !strings.Contains(got[0], "7 keys") {
		t.Errorf("%q", got)
	}
}
