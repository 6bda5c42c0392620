package detect

import (
	"time"

	"github.com/hotparam/pipeline/internal/hotset"
)

// hysteresis decides when a key becomes hot and when it has cooled. It records by which criteria the key is hot and,
// for each, the time since which the count is below the release threshold.
type hysteresis struct {
	hotBy      [criteria]bool
	belowSince [criteria]time.Time // zero while the count is not below
	why        string              // names of the criteria by which the key is hot, or was hot last
	thresholds                     // the lowest of all criteria at the last update
}

func (h *hysteresis) isHot() bool { return h.hotBy != [criteria]bool{} }

// update applies the count of the current window at time at. The parameter required holds the thresholds of each
// criterion.
func (h *hysteresis) update(required *[criteria]thresholds, sum int64, at time.Time) {
	h.thresholds = noThresholds
	for i, t := range required {
		h.thresholds = thresholds{min(h.hot, t.hot), min(h.release, t.release)}
		switch {
		case sum >= t.hot:
			h.hotBy[i], h.belowSince[i] = true, time.Time{}
		case !h.hotBy[i]:
		case sum >= t.release:
			h.belowSince[i] = time.Time{}
		case h.belowSince[i].IsZero():
			h.belowSince[i] = at
		}
	}
	h.nameCriteria()
}

// updateBefore applies the count of the window that ended at time at, the beginning of the current second. The
// parameter before holds the thresholds for that window. If countBefore reaches a criterion, the key is hot by it, and
// cools from time at unless sum, the count of the current window, has reached the release threshold in current. A
// criterion that is cooling cools from time at if countBefore reached its release threshold.
func (h *hysteresis) updateBefore(before *[criteria]thresholds, countBefore int64, at time.Time,
	current *[criteria]thresholds, sum int64) {
	for i, t := range before {
		switch {
		case countBefore >= t.hot && !h.hotBy[i]:
			if h.hotBy[i] = true; sum < current[i].release {
				h.belowSince[i] = at
			}
		case h.hotBy[i] && countBefore >= t.release && !h.belowSince[i].IsZero() && h.belowSince[i].Before(at):
			h.belowSince[i] = at
		}
	}
	h.nameCriteria()
}

// endCooledCriteria ends the criteria that have cooled by now. A key has cooled when its last criterion has ended.
// Cooling begins at time completeFrom at the earliest, because counts may be missing before.
func (h *hysteresis) endCooledCriteria(now, completeFrom time.Time, cooldown time.Duration) {
	for i, since := range h.belowSince {
		if h.hotBy[i] && !since.IsZero() && now.Sub(hotset.Later(since, completeFrom)) >= cooldown {
			h.hotBy[i], h.belowSince[i] = false, time.Time{}
		}
	}
	h.nameCriteria()
}

// nameCriteria sets why. It leaves the names of the last criteria when the key is no longer hot.
func (h *hysteresis) nameCriteria() {
	names := [1 << criteria]string{"", "rate", "share", "rate+share", "surge", "rate+surge", "share+surge",
		"rate+share+surge"}
	set := 0
	for i, hot := range h.hotBy {
		if hot {
			set |= 1 << i
		}
	}
	if set > 0 {
		h.why = names[set]
	}
}
