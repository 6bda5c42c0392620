package fleet

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

var quiet = slog.New(slog.DiscardHandler)

func TestChooseTransport_TakesConfiguredTransport(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		setting       string
		kafka, statsd bool
		want, err     string
	}{
		{"auto", true, false, "kafka", ""},
		{"auto", false, true, "statsd", ""},
		{"auto", false, false, "none", ""},
		{"auto", true, true, "", "--collector.out"},
		{"kafka", false, true, "", "--kafka.brokers"},
		{"statsd", true, false, "", "--statsd.addr"},
		{"both", true, false, "", "--statsd.addr"},
		{"both", true, true, "both", ""},
		{"kafka", true, true, "kafka", ""},
		{"none", true, true, "none", ""},
	} {
		got, err := chooseTransport(tt.setting, "collector.out", tt.kafka, tt.statsd)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("choose(%q, %v, %v) = %q, %v; want %q, %q", tt.setting, tt.kafka, tt.statsd, got, err, tt.want,
				tt.err)
		}
	}
}

// recordingSink records the counts that it receives, or fails.
type recordingSink struct {
	counts []hottype.Count
	err    error
}

func (b *recordingSink) Send(_ context.Context, counts []hottype.Count) error {
	if b.err == nil {
		b.counts = append(b.counts, counts...)
	}
	return b.err
}

// The history receives only counts that detection has received, and its failures make nothing be sent again.
func TestTee_HistoryFailureRepeatsNothing(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	counts := []hottype.Count{{Key: "topic?id=1", N: 2, Second: 3}}
	for _, tt := range []struct {
		judge, history error
		sent, kept     int
	}{{nil, nil, 1, 1}, {down, nil, 0, 0}, {nil, down, 1, 0}} {
		judge, history := &recordingSink{err: tt.judge}, &recordingSink{err: tt.history}
		err := tee{judge, history}.Send(t.Context(), counts)
		if !errors.Is(err, tt.judge) || len(judge.counts) != tt.sent || len(history.counts) != tt.kept {
			t.Errorf("%+v: error %v, sent %v, kept %v", tt, err, judge.counts, history.counts)
		}
	}
}
