package hotset

import (
	"context"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Local publishes into a mirror of the same process. It gives each set the
// version after the last one under its name, so that a successor of the same
// name goes on where it stopped.
type Local struct {
	mirror *Mirror
	name   string
}

// Publisher gives the publisher of that name into m.
func Publisher(m *Mirror, name string) *Local { return &Local{mirror: m, name: name} }

// Publish replaces what was published before. It never fails.
func (l *Local) Publish(_ context.Context, set hottype.HotSet) error {
	l.mirror.publish(l.name, set)
	return nil
}
