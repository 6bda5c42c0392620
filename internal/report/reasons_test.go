package report_test

import (
	"encoding/json"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

func TestNumReasons_CoversEveryReason(t *testing.T) {
	t.Parallel()
	last := hottype.Reason(0)
	for last = range hottype.Reasons() {
	}
	if int(last) != report.NumReasons-1 {
		t.Errorf("the last reason is %d, %s, and arrays have %d elements", last, last, report.NumReasons)
	}
}

// TestDenials_ReadsOtherVersions: a limiter of another version may have reasons that this one has not.
func TestDenials_ReadsOtherVersions(t *testing.T) {
	t.Parallel()
	var got report.Denials
	if err := json.Unmarshal([]byte(`{"hot": 3, "of_later": 9, "cold": 4}`), &got); err != nil {
		t.Fatal(err)
	}
	if got != (report.Denials{hottype.ReasonHot: 3}) {
		t.Errorf("%v", got)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]uint64
	if err := json.Unmarshal(text, &members); err != nil || members["hot"] != 3 || len(members) != 12 {
		t.Errorf("%s: %v", text, err)
	}
}
