package kafka

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// A member of another namespace in the group is logged as an error once, until it leaves. Records of other namespaces
// alone are not logged, and brokers that do not answer do not change the result.
func TestConsumer_ReportsStrangers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	c := consumerOf(t, &now, func([]hottype.Count) {})
	var log bytes.Buffer
	c.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	var ids []string
	var failure error
	c.cfg.Open = &Openers{Members: func(sarama.Client, string) ([]string, error) { return ids, failure }}
	for i, tt := range []struct {
		ids  []string
		err  error
		want int64
		said int // lines in the log so far
	}{
		{ids: []string{"hotparam-news", "hotparam-news"}},
		{ids: []string{"hotparam-shop", "hotparam-news", "hotparam-shop"}, want: 1, said: 1},
		{ids: []string{"hotparam-news", "hotparam-shop"}, want: 1, said: 1},
		{err: errors.New("no answer"), want: 1, said: 1},
		{ids: []string{"hotparam-news", "hotparam-shop", "another tool"}, want: 2, said: 2},
		{ids: []string{"hotparam-news"}, said: 3},
		{ids: []string{"hotparam-news"}, said: 3},
	} {
		ids, failure = tt.ids, tt.err
		c.inspectMembers(nil)
		if got := c.Stats().Strangers; got != tt.want || (c.CheckGroup() != nil) != (tt.want > 0) {
			t.Errorf("look %d: %d strangers, %v; want %d", i, got, c.CheckGroup(), tt.want)
		}
		if got := strings.Count(log.String(), "\n"); got != tt.said {
			t.Errorf("look %d: %d lines, want %d:\n%s", i, got, tt.said, &log)
		}
	}
	if out := log.String(); !strings.Contains(out, "client ids hotparam-shop") ||
		!strings.Contains(out, "only aggregators") {
		t.Errorf("log:\n%s", out)
	}
	c.record(t, Record{Namespace: "shop", Counts: []hottype.Count{{Key: "k", N: 1}}})
	if s := c.Stats(); s.Foreign != 1 || c.CheckGroup() != nil {
		t.Errorf("records of others: %+v, %v", s, c.CheckGroup())
	}
}

// record has a consumer read a record.
func (c *Consumer) record(t *testing.T, rec Record) {
	t.Helper()
	r := &reader{c: c, seen: newDuplicates(maxOrigins), progress: &progress{}}
	r.handleRecord(&sarama.ConsumerMessage{Value: rec.Append(nil), Timestamp: c.cfg.Now()})
}
