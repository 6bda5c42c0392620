package hotparam

import "time"

// Hot is one key over its rule's threshold.
type Hot struct {
	Key  Key    `json:"key"`
	Rule string `json:"rule"`
	// Rate is the key's requests per second over the rule's window when it was
	// last judged.
	Rate float64 `json:"rate"`
	// Peak is the highest Rate since the key became hot.
	Peak float64 `json:"peak_rate"`
	// Since is when the key crossed its threshold.
	Since time.Time `json:"since"`
	// Until is when the entry expires by itself unless it is published again.
	// A mirror that hears nothing keeps a key hot until then and no longer.
	Until time.Time `json:"until"`
}

// HotSet is every hot key of one publisher at one moment. A set with a higher
// version replaces one with a lower version entirely.
type HotSet struct {
	// Version grows with every publication in a namespace.
	Version uint64 `json:"version"`
	// At is when the set was judged, by the publisher's clock.
	At time.Time `json:"at"`
	// Keys are the hot keys, heaviest first. Not to be changed by readers.
	Keys []Hot `json:"keys"`
}
