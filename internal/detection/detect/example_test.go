package detect_test

import (
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/rules"
)

// A log is replayed second by second: every count of a second, then a Tick with a time within that second.
func Example() {
	d := detect.New(&rules.Set{Rules: []*rules.Rule{{
		Name: "topic",
		Hot:  rules.HotCriteria{Rate: 100, Window: 5 * time.Second, Cooldown: 2 * time.Second, ReleaseRatio: 0.7},
	}}}, detect.Options{})

	perSecond := []int64{200, 300, 400, 0, 0, 0, 0, 0, 0, 0}
	for i, n := range perSecond {
		second := 1000 + int64(i)
		if n > 0 {
			d.Add(time.Unix(second, 0), hottype.Count{Key: "topic?id=42", N: n, Second: second})
		}
		_, changes := d.Tick(time.Unix(second, 999_999_999))
		for _, c := range changes {
			fmt.Println(second, c.Kind, c.Hot.Key, c.Hot.Rate, "peak", c.Hot.PeakRate)
		}
	}
	// Output:
	// 1001 became topic?id=42 100 peak 100
	// 1009 cooled topic?id=42 0 peak 180
}
