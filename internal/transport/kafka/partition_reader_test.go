package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/origins"
)

// consumerOf is a Consumer without a broker, with a clock.
func consumerOf(t *testing.T, now *time.Time, handle func([]hottype.Count)) *Consumer {
	t.Helper()
	c, err := NewConsumer(ConsumerConfig{
		Config: Config{Brokers: []string{"127.0.0.1:1"}, Topic: "t", Group: "g", Namespace: "news",
			Log: slog.New(slog.DiscardHandler)},
		Handle: handle, Now: func() time.Time { return *now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReader_SkipsForeignAndRepeatedRecords(t *testing.T) {
	t.Parallel()
	var got []hottype.Count
	now := time.Unix(1700000000, 0)
	c := consumerOf(t, &now, func(counts []hottype.Count) { got = append(got, counts...) })
	c.cluster.recordPartitions(8)
	r := &reader{c: c, partition: Partition("k", 8), committed: 1, seen: newDuplicates(maxOrigins),
		progress: &progress{}}
	good := Record{Namespace: "news", Source: "s", Sequence: 1, Counts: []hottype.Count{{Key: "k", N: 3, Second: 5}}}
	other := Record{Namespace: "sport", Source: "s", Sequence: 1, Counts: good.Counts}
	empty := Record{Namespace: "news", Source: "s", Sequence: 2}
	byHand := `{"namespace":"news","counts":[{"key":"topic?id=42","n":300}]}`
	ofNobody := `{"counts":[{"key":"topic?id=42","n":300}]}` // valid for every namespace
	for i, data := range [][]byte{good.Append(nil), good.Append(nil), other.Append(nil), empty.Append(nil),
		{0x08, 9}, nil, []byte("x"), []byte(byHand), []byte(ofNobody)} {
		r.handleRecord(&sarama.ConsumerMessage{Value: data, Offset: int64(i), Timestamp: now})
	}
	good.Counts[0].Origin = hottype.Origin{Tag: origins.Sender("s"), N: 3}
	byHandCount := hottype.Count{Key: "topic?id=42", N: 300, Second: now.Unix()} // of its message's time
	if d := cmp.Diff([]hottype.Count{good.Counts[0], byHandCount, byHandCount}, got); d != "" {
		t.Error(d)
	}
	want := ConsumerStats{Records: 9, Reread: 1, Counts: 3, Requests: 603, Malformed: 3, Foreign: 1, Duplicates: 1,
		Misplaced: 2, Topic: 8, Partition: map[string]PartitionStats{}}
	if d := cmp.Diff(want, c.Stats()); d != "" {
		t.Error(d)
	}
}

// Producers write to every partition each second, so that one partition without records, while others have some, is a
// silence. A partition that was just taken over has time for its first record, until it fails.
func TestConsumer_LastReceivedSeesASilentPartition(t *testing.T) {
	t.Parallel()
	t0 := time.Unix(1700000000, 0)
	now, sequence := t0, uint64(0)
	c := consumerOf(t, &now, func([]hottype.Count) {})
	var readers [2]*reader
	for i := range readers {
		r := &reader{c: c, partition: int32(i), seen: newDuplicates(maxOrigins), progress: &progress{},
			checkLogin: func() {}}
		readers[i] = r
		c.recordTakeover(r)
	}
	hear := func(r *reader, second int, numbered bool) {
		now = t0.Add(time.Duration(second) * time.Second)
		rec := Record{Namespace: "news", Source: "s"}
		if sequence++; numbered {
			rec.Sequence = sequence
		}
		r.handleRecord(&sarama.ConsumerMessage{Value: rec.Append(nil), Timestamp: now})
	}
	check := func(second, last int, wrong string) {
		t.Helper()
		now = t0.Add(time.Duration(second) * time.Second)
		at, _, err := c.LastReceived()
		if at != t0.Add(time.Duration(last)*time.Second) || fmt.Sprint(err) != wrong {
			t.Errorf("after %d s: heard at %v, %v", second, at.Sub(t0), err)
		}
	}
	hear(readers[0], 1, false)
	check(10, 1, "<nil>") // nothing is promised
	hear(readers[0], 11, true)
	const unread = `kafka: partition 1 of topic "t" has not been read yet`
	check(13, 11, unread)  // it has until 15
	check(14, 11, "<nil>") // nothing comes from anyone: the producers may be gone
	hear(readers[0], 18, true)
	const silent = `kafka: no record in partition 1 of topic "t", where every producer writes one each second`
	check(19, 15, silent)
	hear(readers[1], 20, true)
	check(20, 18, "<nil>")
	hear(readers[1], 24, true)
	check(24, 18, `kafka: no record in partition 0 of topic "t", where every producer writes one each second`)
	readers[0].recordError(errors.New("no leader"))
	check(25, 18, "no leader")
	c.recordTakeover(readers[1])
	hear(readers[0], 26, true)
	check(27, 26, unread)
	readers[1].recordError(errors.New("no leader"))
	hear(readers[0], 30, true)
	check(30, 27, "no leader")
}

func TestProgress_LagAt(t *testing.T) {
	t.Parallel()
	t0 := time.Unix(1000, 0)
	p := &progress{}
	p.setNewest(t0, false)
	for _, step := range []struct {
		written, now int64 // seconds after t0
		last         bool
		lag          time.Duration
	}{
		{0, 30, false, 30 * time.Second},
		{20, 30, false, 10 * time.Second},
		{5, 30, false, 10 * time.Second}, // of a producer whose clock is slow
		{20, 31, true, 0},
		{90, 40, false, 0}, // of one whose clock is fast: no more than now
		{41, 45, false, 4 * time.Second},
	} {
		now := t0.Add(time.Duration(step.now) * time.Second)
		p.advanceTo(now, t0.Add(time.Duration(step.written)*time.Second), step.last)
		if got := p.lagAt(now); got != step.lag {
			t.Errorf("%+v: lag %v", step, got)
		}
	}
	if got := p.lagAt(t0.Add(time.Minute)); got != 19*time.Second {
		t.Errorf("while nothing comes: %v", got)
	}
}

// The lag with which reading starts must not be a lag from which reading jumps.
func TestConsumer_MaxLagIsAboveTheBacklog(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	c := consumerOf(t, &now, func([]hottype.Count) {})
	if got := c.maxLag(); got != 30*time.Second {
		t.Errorf("%v with the default backlog", got)
	}
	c.SetBacklog(time.Minute)
	if got := c.maxLag(); got != 2*time.Minute || c.backlogStart() != now.Add(-time.Minute) {
		t.Errorf("%v, since %v with a backlog of a minute", got, c.backlogStart())
	}
	c.SetBacklog(0)
	if got := c.backlogStart(); got != now.Add(-10*time.Second) {
		t.Errorf("since %v by default", got)
	}
}

// The newest record is never ahead of this machine's clock, also when that was set back: the lag would be unknown until
// the clock comes there again.
func TestProgress_ForgetsAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	var p progress
	now := time.Unix(1_800_000_000, 0)
	p.advanceTo(now.Add(time.Hour), now.Add(time.Hour), false)
	p.advanceTo(now, now.Add(-time.Minute), false) // set back by an hour
	if lag := p.lagAt(now.Add(10 * time.Second)); lag != 10*time.Second {
		t.Errorf("lag %v", lag)
	}
	p.advanceTo(now, now.Add(time.Hour), false) // a producer whose clock is ahead
	p.advanceTo(now.Add(time.Minute), now.Add(30*time.Second), false)
	if lag := p.lagAt(now.Add(time.Minute)); lag != 30*time.Second {
		t.Errorf("lag %v", lag)
	}
}

// A partition is judged when it was read since a time and is read to its end.
func TestConsumer_JudgedReturnsPartitionsReadToTheirEnd(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	c := consumerOf(t, &now, func([]hottype.Count) {})
	c.cluster.recordPartitions(10)
	for partition, behind := range map[int32]time.Duration{1: 0, 3: time.Minute, 9: time.Second} {
		r := &reader{c: c, partition: partition, progress: &progress{}}
		c.recordTakeover(r)
		r.progress.setNewest(now.Add(10*time.Second-behind), behind == 0)
	}
	began := now
	now = now.Add(10 * time.Second)
	for since, want := range map[time.Time]string{began: "", began.Add(time.Second): "19"} {
		p, got := c.Judged(since), ""
		for i := range 16 {
			if p.Has(i) {
				got += strconv.Itoa(i)
			}
		}
		if got != want || p.Count != 10 {
			t.Errorf("since %v: %q of %d partitions, want %q", since.Sub(began), got, p.Count, want)
		}
	}
	c.cluster.recordPartitions(2000)
	if p := c.Judged(now); p.Count != 0 {
		t.Errorf("%+v of a topic with many partitions", p)
	}
}
