package rules

import "time"

// The bounds of the audit in every store. A change is kept for KeepAudit, if all changes fit into MaxAuditBytes.
// Otherwise the oldest changes of the authors whose changes take most bytes are dropped, see [AuditExcess].
const (
	KeepAudit     = 30 * 24 * time.Hour
	MaxAuditBytes = 64 << 20
)

// AuditExcess returns the bytes that each author has over a share, which is the largest by which all authors together
// keep at most most bytes. It is 0 or negative for an author who may keep all changes. So an author can drop only its
// own changes, as long as others have written less, and a change cannot be hidden by making many.
func AuditExcess(bytes map[string]int, most int) map[string]int {
	low, high := 0, 0 // shares of low keep at most most bytes, and shares of high+1 more
	for _, n := range bytes {
		high = max(high, n)
	}
	for low < high {
		share, sum := (low+high+1)/2, 0
		for _, n := range bytes {
			sum += min(n, share)
		}
		if sum <= most {
			low = share
		} else {
			high = share - 1
		}
	}
	excess := make(map[string]int, len(bytes))
	for author, n := range bytes {
		excess[author] = n - low
	}
	return excess
}
