package rules

import (
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// refundStatus reads statuses with which a request gets its tokens back: 304, "4xx".
func (v value) refundStatus() *hottype.Statuses {
	var all hottype.Statuses
	v.list(func(v value) {
		text, ok := v.scalar("a status such as 304 or 5xx", "!!int", "!!str")
		text = strings.ToLower(text)
		class, isClass := strings.CutSuffix(text, "xx")
		n, err := strconv.Atoi(class)
		switch r := (hottype.StatusRange{From: n, To: n}); {
		case !ok:
		case err == nil && isClass && len(class) == 1 && n >= 2 && n <= 5:
			all = append(all, hottype.StatusRange{From: 100 * n, To: 100*n + 99})
		case err == nil && !isClass && len(class) == 3 && n >= 200 && n <= 599:
			all = append(all, r)
		default:
			v.fail("%q is no status of an answer: want 200 to 599, or 2xx to 5xx", cut(text))
		}
	})
	return &all
}

// checkRefund complains about limits that cannot give back what a request took a while ago.
func (l *Limit) checkRefund(got map[string]value) {
	v, ok := got["refund_status"]
	switch {
	case !ok || v.failed():
	case len(*l.RefundStatus) == 0:
		v.fail("is empty; name statuses such as [304, 5xx]")
	case l.Spec.Algorithm == limit.SlidingLog:
		v.fail("sliding_log gives back only what was charged at a known microsecond; bucketed_window does what it does")
	case l.Mode == hottype.ModeShadow:
		v.fail("has no meaning in mode shadow, which admits everything")
	}
}
