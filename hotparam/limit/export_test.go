package limit

import (
	"fmt"
	"sort"
	"strings"
)

// Dump writes out every state, for the laws that say that nothing changed.
func (m *Memory) Dump() string {
	var lines []string
	for i := range m.shards {
		for j := range m.shards[i].tables {
			for _, e := range m.shards[i].tables[j].entries {
				log := m.shards[i].tables[j].logs.get(e.log)
				lines = append(lines, fmt.Sprintf("%d %x %+v %+v", j, e.id, e.state, log))
			}
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}
