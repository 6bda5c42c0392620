package detect

import "time"

// MarkIncomplete says that counts of requests up to now may be missing: senders, or what
// is between them and this process, were not heard. A key that looks cold may not
// be, so none cools before the window of its rule has been counted anew, and then
// for its Cool. Keys become hot as ever. To be called before every Tick for as
// long as that is so.
func (d *Detector) MarkIncomplete(now time.Time) { d.incomplete.Store(now.UnixNano()) }

// completeFrom is from when on the window of a rule has all counts; zero: always.
func (d *Detector) completeFrom(t *compiledRule) time.Time {
	ns := d.incomplete.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).Add(time.Duration(t.window) * time.Second)
}
