package report

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// HotSet is every hot key of one publisher at one moment. A set with a higher
// version replaces one with a lower version entirely.
type HotSet struct {
	// Version grows with every publication in a namespace.
	Version uint64 `json:"version"`
	// At is when the set was judged, by the publisher's clock.
	At time.Time `json:"at"`
	// Keys are the hot keys, heaviest first. Not to be changed by readers.
	Keys []hottype.HotKey `json:"keys"`
	// Loops are keys that would be hot were it not for one or a few clients:
	// they are shown and not limited, because per-IP limits meet those clients.
	// Heaviest first. Not to be changed by readers.
	Loops []hottype.HotKey `json:"loops,omitempty"`
	// NoInput says that the publisher gets no counts: it renews what was hot and
	// lets nothing cool.
	NoInput bool `json:"blind,omitempty"`
	// Last says that the publisher has stopped. Its keys stay hot as those of a silent one.
	Last bool `json:"last,omitempty"`
	// Judged are the partitions whose keys only this publisher counts, and has judged for a whole window: what another
	// one that is silent said of them is over.
	Judged Partitions `json:"judged,omitzero"`
}

// Partitions are some of the partitions of a Kafka topic. The zero value has none.
type Partitions struct {
	// Count is the number of partitions of the topic.
	Count int `json:"count"`
	// Mask has bit i%8 of byte i/8 for each partition i that is one of them.
	Mask []byte `json:"mask"`
}

// Has reports whether partition i is one of them.
func (p Partitions) Has(i int) bool { return i/8 < len(p.Mask) && p.Mask[i/8]>>(i%8)&1 == 1 }
