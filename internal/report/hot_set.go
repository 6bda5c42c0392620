package report

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// HotSet holds every hot key of one publisher at one moment. A set with a higher version replaces a set with a lower
// version entirely.
type HotSet struct {
	// Version grows with every publication in a namespace.
	Version uint64 `json:"version"`
	// At is the time at which the set was judged, by the publisher's clock.
	At time.Time `json:"at"`
	// Keys holds the hot keys in the order of hotset.Sort: of each cost, heaviest first. Readers must not change it.
	Keys []hottype.HotKey `json:"keys"`
	// Loops holds the keys that would be hot were it not for one or a few clients: they are shown and not limited,
	// because per-IP limits apply to these clients. They are sorted heaviest first. Readers must not change it.
	Loops []hottype.HotKey `json:"loops,omitempty"`
	// NoInput is true if the publisher receives no counts: it renews the keys that were hot and lets no key cool.
	NoInput bool `json:"blind,omitempty"`
	// Last is true if the publisher has stopped. Its keys stay hot like the keys of a silent publisher.
	Last bool `json:"last,omitempty"`
	// Judged holds the partitions whose keys only this publisher counts, and has judged for a whole window: keys in
	// them that another, silent publisher holds have ended.
	Judged Partitions `json:"judged,omitzero"`
}

// Partitions is a set of partitions of a Kafka topic. The zero value is empty.
type Partitions struct {
	// Count is the number of partitions of the topic.
	Count int `json:"count"`
	// Mask has bit i%8 of byte i/8 for each partition i of the set.
	Mask []byte `json:"mask"`
}

// Has reports whether the set contains partition i.
func (p Partitions) Has(i int) bool { return i/8 < len(p.Mask) && p.Mask[i/8]>>(i%8)&1 == 1 }
