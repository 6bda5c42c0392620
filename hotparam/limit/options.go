package limit

import (
	"strconv"
	"strings"
)

// Options says in a few words what goes beside the amounts of a limit, for people:
// ", initial 5, wait 500ms, block 1m0s to 1h0m0s", or "" for most.
func (s Spec) Options() string {
	var b strings.Builder
	if s.InitialDeficit > 0 {
		b.WriteString(", initial " + strconv.FormatInt(s.Burst-s.InitialDeficit, 10))
	}
	if s.Wait > 0 {
		b.WriteString(", wait " + s.Wait.String())
	}
	if s.Block > 0 {
		b.WriteString(", block " + s.Block.String())
	}
	if s.BlockMax > s.Block {
		b.WriteString(" to " + s.BlockMax.String())
	}
	return b.String()
}
