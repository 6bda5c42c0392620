package accesslog_test

import (
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// BenchmarkParse measures one line of each documented program.
func BenchmarkParse(b *testing.B) {
	for _, d := range documented {
		lines := strings.Split(d.lines, "\n")
		last := lines[len(lines)-1]
		b.Run(strings.ReplaceAll(d.program, " ", "_"), func(b *testing.B) {
			p, err := d.format.Parser()
			if err != nil {
				b.Fatal(err)
			}
			var e accesslog.Entry
			b.ReportAllocs()
			for b.Loop() {
				_ = p.Parse(last, &e)
			}
		})
	}
}
