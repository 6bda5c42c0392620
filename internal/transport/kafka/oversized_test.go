package kafka

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// batchAt is a compressed batch of records from an offset on.
func batchAt(offset int64, codec sarama.CompressionCodec, now time.Time, values ...[]byte) *sarama.Records {
	b := &sarama.RecordBatch{FirstOffset: offset, Version: 2, Codec: codec, FirstTimestamp: now, MaxTimestamp: now,
		LastOffsetDelta: int32(len(values) - 1), ProducerID: -1}
	for i, value := range values {
		b.Records = append(b.Records, &sarama.Record{OffsetDelta: int64(i), Value: value})
	}
	return &sarama.Records{RecordBatch: b}
}

// A batch that decompresses to more than its bound is skipped with every compression, without allocating the memory
// that it claims. Records before and after it are read once, and it is counted.
func TestReader_SkipsOversizedBatches(t *testing.T) {
	t.Parallel()
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionGZIP, sarama.CompressionSnappy,
		sarama.CompressionLZ4, sarama.CompressionZSTD} {
		t.Run(codec.String(), func(t *testing.T) {
			t.Parallel()
			skipOversized(t, codec)
		})
	}
}

// skipOversized reads a partition with records at 0, 1, 6 and a batch of four, too large together, at 2.
func skipOversized(t *testing.T, codec sarama.CompressionCodec) {
	t.Helper()
	now := time.Unix(1700000000, 0)
	records := make([][]byte, 3)
	for i := range records {
		rec := Record{Namespace: "news", Source: "s", Sequence: uint64(i + 1),
			Counts: []hottype.Count{{Key: "k", N: int64(i + 1), Second: 5}}}
		records[i] = rec.Append(nil)
	}
	zeros := make([]byte, maxBatch/4+1)
	first := batchAt(0, codec, now, records[0], records[1])
	large := batchAt(2, codec, now, zeros, zeros, zeros, zeros)
	last := batchAt(6, codec, now, records[2])
	answer := func(sets ...*sarama.Records) *sarama.FetchResponse {
		return &sarama.FetchResponse{Version: 11, Blocks: map[string]map[int32]*sarama.FetchResponseBlock{
			"t": {0: {HighWaterMarkOffset: 7, LastStableOffset: 7, RecordsSet: sets}}}}
	}
	broker := sarama.NewMockBroker(t, 1)
	defer broker.Close()
	broker.SetHandlerByMap(map[string]sarama.MockResponse{
		"MetadataRequest": sarama.NewMockMetadataResponse(t).SetBroker(broker.Addr(), broker.BrokerID()).
			SetLeader("t", 0, broker.BrokerID()),
		"OffsetRequest": sarama.NewMockOffsetResponse(t).SetOffset("t", 0, sarama.OffsetNewest, 7).
			SetOffset("t", 0, sarama.OffsetOldest, 0).SetOffset("t", 0, now.Add(-10*time.Second).UnixMilli(), 0),
		// The client reads all, then the reader asks at 0, 2, and for the end of the batch at 3, 5 and 6.
		"FetchRequest": sarama.NewMockSequence(answer(first, large, last), answer(first), answer(large), answer(large),
			answer(large), answer(last), answer(last), answer()),
	})
	got := make(chan []hottype.Count, 16)
	c := consumerOf(t, &now, func(counts []hottype.Count) { got <- counts })
	cfg, err := c.cfg.saramaConfig()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Version, cfg.ApiVersionsRequest = sarama.V2_4_0_0, false // which the versions of the answers here fit
	cfg.Consumer.Retry.Backoff = time.Millisecond
	client, err := sarama.NewClient([]string{broker.Addr()}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	var marked []int64
	r := &reader{c: c, client: client, consumer: consumer, committed: -1, next: -1,
		progress: &progress{}, checkLogin: func() {},
		seen: newDuplicates(maxOrigins), mark: func(offset int64) { marked = append(marked, offset) }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.run(ctx) }()
	for i := range 3 {
		select {
		case counts := <-got:
			if len(counts) != 1 || counts[0].N != int64(i+1) {
				t.Errorf("record %d: %+v", i, counts)
			}
		case <-time.After(time.Minute):
			t.Fatal("the partition does not go on")
		}
	}
	cancel()
	<-ended
	if s := c.Stats(); s.Oversized != 4 || s.Records != 3 || s.Duplicates != 0 || !slices.Contains(marked, 6) {
		t.Errorf("%+v, marked %v", s, marked)
	}
}
