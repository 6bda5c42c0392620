package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/conf"
)

// ConsumerConfig configures a Consumer. Handle and Group are required.
type ConsumerConfig struct {
	Config
	// Handle receives the counts of each record and may keep the slice; the keys of a record share memory. Each
	// partition has a goroutine that calls it. The record counts as read when Handle returns.
	Handle func([]hottype.Count)
	// Taken is called when a partition is taken over, before its first Handle: the counts of its keys from before the
	// Backlog are unknown. By default nothing is called.
	Taken func()
	// Lost is called when a partition leaves, after its last Handle. Its argument reports whether a key belongs to the
	// partition. The counts of these keys must be dropped, because the next owner, even if it is this member again,
	// reads the Backlog again. By default nothing is called.
	Lost func(held func(hottype.Key) bool)
	// Backlog is how far back a partition is read when it is taken over, below or above the offset that the group
	// committed; default 10 s. With the longest window of the rules, plus the delays of flushing and clocks, the new
	// owner counts exactly the same as the old one.
	Backlog time.Duration
	// MaxLag is the maximum lag of a partition, after which reading jumps to the Backlog; default 30 s, at least two
	// backlogs.
	MaxLag time.Duration
	// Instance makes this a static member of the group: a restart within SessionTimeout under the same name, which must
	// be unique, keeps its partitions; a stop hands them over only after SessionTimeout. By default the member is
	// dynamic.
	Instance string
	// SessionTimeout is the time after which a silent member has left the group. Brokers usually accept 6 s to 30 min;
	// default 10 s.
	SessionTimeout time.Duration
	Now            func() time.Time // for Backlog and lag; default time.Now
}

// Consumer reads counts as a member of a consumer group. It is safe for concurrent use, but Run must be called by one
// goroutine.
type Consumer struct {
	cfg     ConsumerConfig
	cluster *clusterClient
	backlog atomic.Int64 // nanoseconds

	records, reread, skipped, jumps, counts, requests atomic.Uint64
	malformed, foreign, duplicates, misplaced, errors atomic.Uint64
	oversized                                         atomic.Uint64

	heard     atomic.Int64              // time of our last record in unix ns, or 0 before the first
	promised  atomic.Bool               // a record came from a producer that sends heartbeats
	session   atomic.Bool               // this member is in the group
	lastError atomic.Pointer[readError] // the last error after which the client continued
	// strangers holds the client ids of members of the group that are not aggregators of the namespace, or nil if they
	// are not known.
	strangers atomic.Pointer[[]string]

	mu      sync.Mutex // guards the fields below
	reading map[int32]*progress
}

// NewConsumer builds a Consumer. It does not use the network.
func NewConsumer(cfg ConsumerConfig) (*Consumer, error) {
	var err error
	if cfg.Config, err = cfg.withDefaults(); err != nil {
		return nil, err
	}
	if cfg.Group == "" {
		return nil, errors.New("kafka: a consumer without a group")
	}
	if cfg.Handle == nil {
		return nil, errors.New("kafka: a consumer without Handle")
	}
	if cfg.Taken == nil {
		cfg.Taken = func() {}
	}
	if cfg.Lost == nil {
		cfg.Lost = func(func(hottype.Key) bool) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.MaxLag = cmp.Or(max(cfg.MaxLag, 0), 30*time.Second)
	cfg.SessionTimeout = cmp.Or(max(cfg.SessionTimeout, 0), 10*time.Second)
	if !conf.ValidInstance(cfg.Instance) {
		return nil, fmt.Errorf("kafka: instance %q is not up to 249 of a-z A-Z 0-9 . _ -", cfg.Instance)
	}
	if cfg.SessionTimeout < time.Second {
		return nil, fmt.Errorf("kafka: session timeout %v is below 1s", cfg.SessionTimeout)
	}
	c := &Consumer{cfg: cfg, cluster: newClusterClient(cfg.Config, "no counts are read"),
		reading: map[int32]*progress{}}
	c.cluster.adjust = c.adjustSettings
	c.SetBacklog(cfg.Backlog)
	return c, nil
}

// SetBacklog changes Backlog for partitions that are taken over later; 0 stands for the default.
func (c *Consumer) SetBacklog(d time.Duration) {
	c.backlog.Store(int64(cmp.Or(max(d, 0), 10*time.Second)))
}

// backlogStart returns the time at which reading starts.
func (c *Consumer) backlogStart() time.Time { return c.cfg.Now().Add(-time.Duration(c.backlog.Load())) }

// maxLag returns the maximum lag. It is greater than the lag with which reading starts, because otherwise jumping would
// not end.
func (c *Consumer) maxLag() time.Duration {
	return max(c.cfg.MaxLag, 2*time.Duration(c.backlog.Load()))
}

func (c *Consumer) adjustSettings(s *sarama.Config) {
	s.Consumer.Group.InstanceId = c.cfg.Instance
	s.Consumer.Group.Session.Timeout = c.cfg.SessionTimeout
	s.Consumer.Group.Rebalance.Timeout = c.cfg.SessionTimeout
	// A member that joins receives its response when all others have joined too, or are given up.
	s.Net.ReadTimeout += c.cfg.SessionTimeout
}

// leaveWithin bounds the time in which Run commits and leaves the group.
const leaveWithin = 2 * time.Second

// Run reads until ctx ends, commits, leaves the group and returns nil. It tries again while there is no broker.
func (c *Consumer) Run(ctx context.Context) error {
	hard, cancel := graceContext(ctx, leaveWithin)
	defer cancel()
	for {
		client, err := c.cluster.connect(ctx, hard)
		if err != nil {
			return nil // ctx ended
		}
		err = c.consume(ctx, hard, client)
		if ctx.Err() != nil {
			return nil
		}
		c.cluster.recordOutage(fmt.Errorf("kafka: consumer group %q: %w%s", c.cfg.Group, err, remedyOf(err)))
		if !c.cluster.waitForRetry(ctx) {
			return nil
		}
	}
}

// consume is a member of the group until ctx ends or the brokers fail. It closes the client.
//
// Records are read over connections of their own, because on the connections of the group a heartbeat, or the response
// to a rebalance, would wait behind them.
func (c *Consumer) consume(ctx, hard context.Context, client sarama.Client) error {
	ctx, reopen := context.WithCancelCause(ctx)
	defer reopen(nil)
	defer client.Close()
	data, err := c.cluster.openClient(hard, nil)
	if err != nil {
		return err
	}
	defer data.Close()
	consumer, err := c.cfg.Open.Consumer(data)
	if err != nil {
		return err
	}
	defer consumer.Close()
	group, err := c.cfg.Open.Group(c.cfg.Group, client)
	if err != nil {
		return err
	}
	drained := make(chan struct{})
	go func() { // otherwise the client would stop at its hundredth error
		defer close(drained)
		for err := range group.Errors() {
			c.recordError(err)
		}
	}()
	defer func() {
		_ = group.Close() // the group notices by itself that the member left
		<-drained
	}()
	watched, unwatch := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { c.watchMembers(watched, data) })
	defer watching.Wait()
	defer unwatch()
	return c.runSessions(ctx, group, &member{c: c, group: group, client: data, consumer: consumer, checkLogin: func() {
		if c.cfg.Login.isStale(client) || c.cfg.Login.isStale(data) {
			reopen(errPasswordReplaced)
		}
	}})
}

// errPasswordReplaced ends connections that failed after the password in the file was replaced.
var errPasswordReplaced = errors.New("the password was replaced: connecting again")

// giveUpAfter is the length of an outage after which all connections are opened again.
const giveUpAfter = time.Minute

// runSessions runs one session of the group after the other, through outages as the same member, because a new member
// would have to wait until the group gives up the old one.
func (c *Consumer) runSessions(ctx context.Context, group sarama.ConsumerGroup, m *member) error {
	since := time.Now()
	for ctx.Err() == nil {
		err := group.Consume(ctx, []string{c.cfg.Topic}, m)
		if err == nil || m.began.Swap(false) { // a session began
			since = time.Now()
		}
		if err == nil {
			continue
		}
		if time.Since(since) > giveUpAfter {
			return err
		}
		c.cluster.recordOutage(fmt.Errorf("kafka: consumer group %q: %w%s", c.cfg.Group, err, remedyOf(err)))
		m.checkLogin()
		c.cluster.waitForRetry(ctx)
	}
	return context.Cause(ctx)
}

// recordError counts and logs an error after which the client continues.
func (c *Consumer) recordError(err error) {
	c.errors.Add(1)
	c.lastError.Store(&readError{err, c.cfg.Now()})
	c.cfg.Log.Warn("kafka: the consumer has trouble and tries again", "topic", c.cfg.Topic, "group", c.cfg.Group,
		"err", err.Error()+remedyOf(err))
}

type readError struct {
	err error
	at  time.Time
}

// readErrorFor is how long an error may explain the absence of records.
const readErrorFor = 10 * time.Second

// newPartition is the time that producers may take to write to a partition that is new to them and to us.
const newPartition = 15 * time.Second

// LastReceived returns the time of the last record of our namespace, or the zero time before the first. promised is
// true if producers write a record into every partition each second, so that silence means that they are cut off. Then
// last is the time of the partition that has been silent the longest, because its keys are not counted elsewhere. err
// is the known problem with the brokers, if any. A member without a partition does not miss records.
func (c *Consumer) LastReceived() (last time.Time, promised bool, err error) {
	now, promised := c.cfg.Now(), c.promised.Load()
	if ns := c.heard.Load(); ns > 0 {
		last = time.Unix(0, ns)
	}
	c.mu.Lock()
	idle := len(c.reading) == 0 && c.session.Load()
	if promised {
		last, err = c.longestSilence(last, now)
	}
	c.mu.Unlock()
	if outage := c.cluster.outage.Load(); outage != nil {
		err = *outage
	} else if m := c.lastError.Load(); m != nil && !m.at.Before(last) && now.Sub(m.at) < readErrorFor {
		err = m.err
	}
	if idle && err == nil {
		last = now
	}
	return last, promised, err
}

// longestSilence returns the time since which the most silent partition has had no record, but not later than last, and
// the problem with that partition. The caller holds mu.
func (c *Consumer) longestSilence(last, now time.Time) (least time.Time, err error) {
	least = last
	for _, partition := range slices.Sorted(maps.Keys(c.reading)) {
		switch heard := time.Unix(0, c.reading[partition].heard.Load()); {
		case heard.Before(least):
			if least = heard; last.Sub(heard) > 2*aliveEvery {
				err = fmt.Errorf("kafka: no record in partition %d of topic %q, where every producer writes one each second",
					partition, c.cfg.Topic)
			}
		case heard.After(now) && now.Sub(last) <= 2*aliveEvery && err == nil: // else all of them are silent
			err = fmt.Errorf("kafka: partition %d of topic %q has not been read yet", partition, c.cfg.Topic)
		}
	}
	return least, err
}
