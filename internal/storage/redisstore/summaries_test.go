package redisstore

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

func TestSummariesAreKeptForAMonth(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	day := func(ago int) string { return time.Now().AddDate(0, 0, -ago).Format(time.DateOnly) }
	for _, s := range []hottype.Summary{
		{Day: day(40), Source: "a", Requests: 1}, {Day: day(1), Source: "a", Requests: 2}, {Day: day(0), Source: "b", Requests: 3},
		{Day: day(0), Source: "a", Requests: 4, Open: true}, {Day: day(0), Source: "a", Requests: 5},
	} {
		if err := c.PutSummary(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.Summaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, s := range list {
		got = append(got, s.Requests)
	}
	if len(got) != 3 || got[0] != 5 || got[1] != 3 || got[2] != 2 {
		t.Errorf("requests of the summaries %v, want 5 3 2", got)
	}
	if life := c.rdb.PTTL(t.Context(), c.keys.summaries()).Val(); life <= 31*24*time.Hour || life > summaryLife {
		t.Errorf("they live for %v", life)
	}
}
