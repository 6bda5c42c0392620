package hottype

import "time"

// Hot is one key over its rule's threshold.
type Hot struct {
	Key  Key    `json:"key"`
	Rule string `json:"rule"`
	// Rate is the key's requests per second over the rule's window when it was
	// last judged.
	Rate float64 `json:"rate"`
	// Lower and Upper bound the true rate: a window that holds more keys than
	// its memory allows knows counts to within an error only. Both are Rate
	// where the count is exact.
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
	// Share is the key's part of its resource's requests in the window, 0 to 1.
	Share float64 `json:"share"`
	// Baseline is the rate that the key used to have before, at most, in requests per
	// second; 0 where the rule has no surge, or knows of no past long enough.
	Baseline float64 `json:"baseline,omitempty"`
	// Why is what made it hot: "rate", "share" or "surge", or several joined by
	// "+".
	Why string `json:"why"`
	// Clients is about how many different clients asked for it in the window; 0
	// where the senders do not say.
	Clients int64 `json:"clients"`
	// Client is the heaviest of them and ClientShare its part of the key's
	// requests, 0 to 1; empty where the senders do not say.
	Client      string  `json:"client,omitempty"`
	ClientShare float64 `json:"client_share,omitempty"`
	// Peak is the highest Rate since the key became hot.
	Peak float64 `json:"peak_rate"`
	// Since is when the key crossed its threshold.
	Since time.Time `json:"since"`
	// Until is until when the publisher vouches for the entry; it renews that
	// about once a second. Readers keep a key for some minutes beyond it, because
	// a publisher that has fallen silent has not said that the key is cold.
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
	// Loops are keys that would be hot were it not for one or a few clients:
	// they are shown and not limited, because per-IP limits meet those clients.
	// Heaviest first. Not to be changed by readers.
	Loops []Hot `json:"loops,omitempty"`
	// Blind says that the publisher gets no counts: it renews what was hot and
	// lets nothing cool.
	Blind bool `json:"blind,omitempty"`
}
