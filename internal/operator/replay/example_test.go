package replay_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

func ExampleRun() {
	set, err := rules.Parse("rules.yaml", []byte(`
rules:
  - name: topic
    match: {path: /topic}
    params: [id]
    hot: {rate: 20, window: 1s}
    limit: {rate: 10, burst: 10}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	log := strings.Repeat("1700000000\t192.0.2.1\tGET\t/topic?id=42\n", 100)
	report, err := replay.Run(context.Background(), replay.Config{Rules: set},
		replay.Source{Name: "events.tsv", Reader: strings.NewReader(log)})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(
		report.Hot[0].Key,
		"at",
		report.Hot[0].PeakRate,
		"a second,",
		report.Denied[hottype.ReasonHot],
		"denied",
	)
	// Output: topic?id=42 at 100 a second, 63 denied
}
