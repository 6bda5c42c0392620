package kafka

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
)

// smallTopic is a producer whose brokers refuse batches above a size, all records of a partition at once.
type smallTopic struct {
	sarama.SyncProducer
	most  int
	calls int
	got   map[hottype.Key]int64
}

func (s *smallTopic) SendMessages(list []*sarama.ProducerMessage) error {
	s.calls++
	sizes := map[int32]int{}
	for _, m := range list {
		sizes[m.Partition] += m.Value.Length()
	}
	var failed sarama.ProducerErrors
	for _, m := range list {
		if sizes[m.Partition] > s.most {
			failed = append(failed, &sarama.ProducerError{Msg: m, Err: sarama.ErrMessageSizeTooLarge})
			continue
		}
		data, _ := m.Value.Encode()
		rec, err := ParseRecord(data)
		if err != nil {
			return err
		}
		for _, c := range rec.Counts {
			s.got[c.Key] += c.N
		}
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

// A count above the topic's maximum costs its own requests alone: the others of its partition and of other partitions
// arrive at once, each of them once, in records that the topic takes. Later the topic takes larger ones.
func TestProducer_DropsOnlyTheCountThatIsTooLarge(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	p, err := NewProducer(ProducerConfig{Config: Config{Brokers: []string{"127.0.0.1:1"}, Topic: "t", Namespace: "news",
		Log: slog.New(slog.NewTextHandler(&log, nil))}, Source: "s", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	huge := hottype.Key("topic?id=" + strings.Repeat("x", 5000))
	counts := []hottype.Count{{Key: huge, N: 7, Second: 1}}
	for i := range 1000 {
		counts = append(counts, hottype.Count{Key: hottype.Key(fmt.Sprint("topic?id=", i)), N: int64(i + 1), Second: 1})
	}
	topic := &smallTopic{most: 1500, got: map[hottype.Key]int64{}}
	write := func() (failed, written int) {
		p.sizes.expireBound(now)
		records, _ := p.pack.packRecords([]batchqueue.Batch{{Counts: counts, At: now}}, 2,
			min(maxRecord, p.sizes.maxBytes()))
		out := p.writeAll(topic, records)
		return len(out.failed), out.written
	}
	for turn := int64(1); turn <= 2; turn++ {
		failed, written := write()
		if failed > 0 || written == 0 || len(p.unconfirmed.records) > 0 {
			t.Fatalf("turn %d: %d failed, %d written, %d wait", turn, failed, written, len(p.unconfirmed.records))
		}
		if _, arrived := topic.got[huge]; arrived || len(topic.got) != 1000 {
			t.Fatalf("turn %d: %d keys arrived", turn, len(topic.got))
		}
		for _, c := range counts[1:] {
			if topic.got[c.Key] != turn*c.N {
				t.Fatalf("turn %d: %s arrived %d times, want %d", turn, c.Key, topic.got[c.Key], turn*c.N)
			}
		}
		if s := p.Stats(); s.Dropped != uint64(turn*7) || s.Sent != uint64(turn*500500) {
			t.Fatalf("turn %d: %+v", turn, s)
		}
	}
	if strings.Count(log.String(), "refuses a batch for its size") != 1 {
		t.Errorf("want one line about the bound:\n%s", &log)
	}
	now, topic.most, topic.calls = now.Add(boundFor), 1<<20, 0
	if write(); topic.calls != 1 {
		t.Errorf("the bound is kept: %d calls", topic.calls)
	}
}

// shrunk is a client of a topic that was created again with fewer partitions, which the client learns when it asks.
type shrunk struct {
	sarama.Client
	sarama.SyncProducer
	known, has int32
	got        int64
}

func (s *shrunk) Close() error { return nil }

func (s *shrunk) Partitions(string) (list []int32, err error) {
	for i := range s.known {
		list = append(list, i)
	}
	return list, nil
}

func (s *shrunk) RefreshMetadata(...string) error {
	s.known = s.has
	return nil
}

func (s *shrunk) SendMessages(list []*sarama.ProducerMessage) error {
	var failed sarama.ProducerErrors
	for _, m := range list {
		if m.Partition >= s.has {
			failed = append(failed, &sarama.ProducerError{Msg: m, Err: sarama.ErrInvalidPartition})
			continue
		}
		data, _ := m.Value.Encode()
		rec, err := ParseRecord(data)
		if err != nil {
			return err
		}
		s.got += int64(batchqueue.Requests(rec.Counts))
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

// When a topic is created again with fewer partitions, the counts of missing partitions go to the others with the next
// call, and the log does not report the brokers as absent and back again for each call that found no existing
// partition.
func TestProducer_ReroutesCountsOfAShrunkTopic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	p, err := NewProducer(ProducerConfig{Config: Config{Brokers: []string{"127.0.0.1:1"}, Topic: "t", Namespace: "news",
		Log: slog.New(slog.NewTextHandler(&log, nil))}, Source: "s", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	s := &shrunk{known: 8, has: 1}
	var all int64
	for i := range 100 {
		key := hottype.Key(fmt.Sprint("topic?id=", i))
		if Partition(key, 8) == 0 {
			continue // these would be written at once
		}
		all++
		batch := []batchqueue.Batch{{Counts: []hottype.Count{{Key: key, N: 1, Second: 1}}, At: now}}
		s.known = 8 // an old answer of another broker
		if err := p.send(s, s, batch, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.send(s, s, nil, false); err != nil {
		t.Fatal(err)
	}
	if s.got != all || p.Stats().Queued != 0 || p.Stats().Dropped != 0 {
		t.Errorf("%d of %d arrived; %+v", s.got, all, p.Stats())
	}
	if strings.Contains(log.String(), "cannot write") || strings.Contains(log.String(), "answer again") {
		t.Errorf("brokers that take what they have are said to be away:\n%.2000s", &log)
	}
}
