package tally

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
	"github.com/hotparam/pipeline/internal/wait"
)

// pendingBatch holds the batch that the sink rejected once. Only the goroutine that holds Tally.flushing may use it.
type pendingBatch struct {
	// pending is at most one batch that the sink rejected once.
	pending []hottype.Count
	failing bool // the outage has been logged
	lost    uint64
}

// Run flushes at every Config.Flush, while there are counts, until ctx ends, then a last time, and returns nil. The end
// takes at most two calls of the sink, each within Config.Timeout. Stop the callers of Add first: requests that are
// added later are not flushed.
func (t *Tally) Run(ctx context.Context) error {
	for began := time.Now(); wait.For(ctx, t.cfg.Flush-time.Since(began)%t.cfg.Flush); {
		_ = t.Flush(ctx) // counted and logged
		if t.budget.keys.Load() == 0 && t.pending.Load() == 0 {
			select {
			case <-t.budget.first:
			case <-ctx.Done():
			}
		}
	}
	// A rejected batch has one more chance, then the counts added since.
	for range 2 {
		_ = t.Flush(context.WithoutCancel(ctx))
	}
	return nil
}

// Flush hands the sums so far to the sink, and returns the sink's error. It waits for a flush in progress. Run does
// this by itself; tests and a shutdown in several steps may need it at once.
//
// A batch that the sink rejects is sent once more at the next flush, before newer counts, and then dropped and counted.
// So during an outage there is never more than one batch in memory, and the counts after an outage are fresh: a sink
// without timestamps (StatsD) would take a backlog for a burst.
func (t *Tally) Flush(ctx context.Context) error {
	select {
	case <-t.flushing:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { t.flushing <- struct{}{} }()

	counts := t.collectCounts()
	if again := t.out.pending; again != nil {
		if err := t.send(ctx, again); err != nil {
			n := batchqueue.Requests(again)
			t.out.lost += n
			t.droppedSink.Add(n)
			t.setPending(counts)
			return err
		}
		t.setPending(nil)
	}
	if len(counts) == 0 {
		return nil
	}
	err := t.send(ctx, counts)
	if err != nil {
		t.setPending(counts)
	}
	return err
}

// send calls the sink. A send ends by its deadline, not by the end of ctx, so that a shutdown does not lose counts that
// are on their way.
func (t *Tally) send(ctx context.Context, counts []hottype.Count) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.cfg.Timeout)
	defer cancel()
	if err := t.cfg.Sink.Send(ctx, counts); err != nil {
		t.sinkErrors.Add(1)
		if !t.out.failing {
			t.out.failing = true
			t.cfg.Log.Warn("tally: cannot hand on counts; they are dropped until it works again", "err", err)
		}
		return fmt.Errorf("tally: %w", err)
	}
	t.flushed.Add(batchqueue.Requests(counts))
	if t.out.failing {
		t.out.failing = false
		t.cfg.Log.Info("tally: counts are handed on again", "dropped", t.out.lost)
		t.out.lost = 0
	}
	return nil
}

// setPending makes counts the pending batch, or clears it if there are none.
func (t *Tally) setPending(counts []hottype.Count) {
	if len(counts) == 0 {
		counts = nil
	}
	t.out.pending = counts
	t.pending.Store(int64(len(counts)))
}

// collectCounts empties every shard into one batch, with one count for each pair.
func (t *Tally) collectCounts() []hottype.Count {
	n := t.budget.keys.Load()
	if n == 0 {
		return nil
	}
	counts := make([]hottype.Count, 0, n)
	for j := range shardsPerCore {
		all := t.swapTables(j)
		for _, other := range all[1:] {
			all[0].merge(other)
		}
		counts = all[0].appendTo(counts)
		t.scores.add(all[0])
		for _, full := range all {
			full.reset()
		}
	}
	t.tracked.Store(t.scores.chooseTracked())
	return counts
}

// swapTables takes the tables of one shard of every core.
func (t *Tally) swapTables(j int) []*table {
	all := make([]*table, 0, maxCoreShards)
	for i := range t.coreShards {
		full := t.coreShards[i].shards[j].swap()
		t.budget.release(full)
		all = append(all, full)
	}
	return all
}

// Stats holds the counters of a Tally. Except for Keys, Pending and TrackedKeys the fields only grow and count
// requests, and once all requests are flushed
//
//	Added = Flushed + DroppedFull + DroppedSink
type Stats struct {
	Added   uint64 `metric:"hotparam_tally_added_total" help:"Requests counted. Rules with a cost count microseconds, bytes or thousandths, here and in the other counters."`
	Flushed uint64 `metric:"hotparam_tally_flushed_total" help:"Counted requests whose sums were sent."`
	// DroppedFull found no room: more than MaxKeys or MaxBytes in one flush.
	DroppedFull uint64 `metric:"hotparam_tally_dropped_full_total" help:"Requests not counted because too many keys were requested within one flush interval."`
	// DroppedSink was rejected by the sink twice.
	DroppedSink uint64 `metric:"hotparam_tally_dropped_sink_total" help:"Requests whose counts were dropped because sending them failed twice."`
	// SinkErrors is the number of calls of the sink that failed.
	SinkErrors uint64 `metric:"hotparam_tally_sink_errors_total" help:"Failed attempts to send sums."`
	// Keys is the number of pairs of key and second now in the tables; Pending is their number in the batch that waits
	// for its second try.
	Keys    int64 `metric:"hotparam_tally_keys" help:"Pairs of key and second that are being summed."`
	Pending int64 `metric:"hotparam_tally_pending" help:"Pairs of key and second that wait to be sent again."`
	// TrackedKeys is the number of keys whose clients are recorded, and DroppedClients the number of requests of such
	// keys whose client found no room: they are counted, but not attributed.
	TrackedKeys    int64  `metric:"hotparam_tally_tracked_keys" help:"Keys whose clients are counted too."`
	DroppedClients uint64 `metric:"hotparam_tally_dropped_clients_total" help:"Requests counted without their client, because too many clients asked for the key."`
}

func (t *Tally) Stats() Stats {
	s := Stats{
		Flushed:     t.flushed.Load(),
		DroppedSink: t.droppedSink.Load(),
		SinkErrors:  t.sinkErrors.Load(),
		Keys:        t.budget.keys.Load(),
		Pending:     t.pending.Load(),
		TrackedKeys: int64(len(*t.tracked.Load())),
	}
	for i := range t.coreShards {
		for j := range t.coreShards[i].shards {
			sh := &t.coreShards[i].shards[j]
			sh.mu.Lock()
			s.Added += sh.added
			s.DroppedFull += sh.dropped
			s.DroppedClients += sh.unseen
			sh.mu.Unlock()
		}
	}
	return s
}
