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

// ConsumerConfig configures a Consumer. Handle and Group are needed.
type ConsumerConfig struct {
	Config
	// Handle gets the counts of each record and may keep the slice; the keys of a record share
	// memory. Each partition has a goroutine that calls it. The record counts as read when it returns.
	Handle func([]hottype.Count)
	// Taken is called when a partition has come, before its first Handle: of its keys nothing is
	// known from before the Backlog. Default: nothing.
	Taken func()
	// Lost is called when a partition leaves, after its last Handle, with a function that knows its
	// keys. Their counts must be dropped: the next owner, also if it is this member again, reads the
	// Backlog again. Default: nothing.
	Lost func(held func(hottype.Key) bool)
	// Backlog is how far back a partition is read when it is taken over, below or above the offset
	// that the group committed; default 10 s. With the longest window of the rules, and what
	// flushing and clocks add to it, the new owner counts exactly what the old one did.
	Backlog time.Duration
	// MaxLag is how far behind its end a partition may be read; default 30 s, at least two backlogs.
	// Further behind, reading jumps to the Backlog.
	MaxLag time.Duration
	// Instance makes this a static member of the group: a restart within SessionTimeout under the
	// same name, which no other member has, keeps its partitions; a stop hands them over only after
	// SessionTimeout. Default: a dynamic member.
	Instance string
	// SessionTimeout is when a silent member has left, 6 s to 30 min as brokers are set up; default
	// 10 s.
	SessionTimeout time.Duration
	Now            func() time.Time // for Backlog and lag; default time.Now
}

// Consumer reads counts as a member of a consumer group. Only Run is for one goroutine.
type Consumer struct {
	cfg     ConsumerConfig
	link    *clusterClient
	backlog atomic.Int64 // nanoseconds

	records, reread, skipped, jumps, counts, requests atomic.Uint64
	malformed, foreign, duplicates, misplaced, errors atomic.Uint64
	oversized                                         atomic.Uint64

	heard    atomic.Int64              // when the last record of ours came, unix ns; 0: never
	promised atomic.Bool               // one of them was by a producer that says that it lives
	session  atomic.Bool               // this member is in the group
	erred    atomic.Pointer[readError] // the last error that the client went on after
	// strangers are the client ids of members of the group that are no aggregators of the namespace; nil: not known.
	strangers atomic.Pointer[[]string]

	mu      sync.Mutex // guards the rest
	reading map[int32]*progress
}

// NewConsumer builds a Consumer. It looks at no network.
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
	c := &Consumer{cfg: cfg, link: newLink(cfg.Config, "no counts are read"), reading: map[int32]*progress{}}
	c.link.adjust = c.adjust
	c.SetBacklog(cfg.Backlog)
	return c, nil
}

// SetBacklog changes Backlog for partitions that are taken over later; 0: the default.
func (c *Consumer) SetBacklog(d time.Duration) {
	c.backlog.Store(int64(cmp.Or(max(d, 0), 10*time.Second)))
}

// since is where reading starts.
func (c *Consumer) since() time.Time { return c.cfg.Now().Add(-time.Duration(c.backlog.Load())) }

// maxLag is above the lag with which reading starts, or jumping would not end.
func (c *Consumer) maxLag() time.Duration {
	return max(c.cfg.MaxLag, 2*time.Duration(c.backlog.Load()))
}

func (c *Consumer) adjust(s *sarama.Config) {
	s.Consumer.Group.InstanceId = c.cfg.Instance
	s.Consumer.Group.Session.Timeout = c.cfg.SessionTimeout
	s.Consumer.Group.Rebalance.Timeout = c.cfg.SessionTimeout
	// Who joins is answered when all others have joined too, or are given up.
	s.Net.ReadTimeout += c.cfg.SessionTimeout
}

// leaveWithin bounds how long Run takes to commit and leave the group.
const leaveWithin = 2 * time.Second

// Run reads until ctx ends, commits, leaves the group and returns nil. Without a broker it tries again.
func (c *Consumer) Run(ctx context.Context) error {
	hard, cancel := grace(ctx, leaveWithin)
	defer cancel()
	for {
		client, err := c.link.connect(ctx, hard)
		if err != nil {
			return nil // ctx ended
		}
		err = c.consume(ctx, hard, client)
		if ctx.Err() != nil {
			return nil
		}
		c.link.failed(fmt.Errorf("kafka: consumer group %q: %w%s", c.cfg.Group, err, hint(err)))
		if !c.link.pause(ctx) {
			return nil
		}
	}
}

// consume is a member of the group until ctx ends or the brokers fail. It
// closes the client.
//
// Records are read over connections of their own: on those of the group a
// heartbeat, or the answer to a rebalance, would wait behind them.
func (c *Consumer) consume(ctx, hard context.Context, client sarama.Client) error {
	ctx, reopen := context.WithCancelCause(ctx)
	defer reopen(nil)
	defer client.Close()
	data, err := c.link.try(hard, nil)
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
	go func() { // or the client would stop at its hundredth error
		defer close(drained)
		for err := range group.Errors() {
			c.failed(err)
		}
	}()
	defer func() {
		_ = group.Close() // the group notices by itself that we are gone
		<-drained
	}()
	watched, unwatch := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { c.watchMembers(watched, data) })
	defer watching.Wait()
	defer unwatch()
	return c.sessions(ctx, group, &member{c: c, group: group, client: data, consumer: consumer, checkLogin: func() {
		if c.cfg.Login.isStale(client) || c.cfg.Login.isStale(data) {
			reopen(errPasswordReplaced)
		}
	}})
}

// errPasswordReplaced ends connections that failed while the file had another password than they.
var errPasswordReplaced = errors.New("the password was replaced: connecting again")

// giveUpAfter is how long an outage lasts before all connections are made anew.
const giveUpAfter = time.Minute

// sessions runs one session of the group after the other, through outages as the same member: for a new one
// the group would wait until it gives up the old one.
func (c *Consumer) sessions(ctx context.Context, group sarama.ConsumerGroup, m *member) error {
	since := time.Now()
	for ctx.Err() == nil {
		err := group.Consume(ctx, []string{c.cfg.Topic}, m)
		if err == nil || m.began.Swap(false) { // a session has been there
			since = time.Now()
		}
		if err == nil {
			continue
		}
		if time.Since(since) > giveUpAfter {
			return err
		}
		c.link.failed(fmt.Errorf("kafka: consumer group %q: %w%s", c.cfg.Group, err, hint(err)))
		m.checkLogin()
		c.link.pause(ctx)
	}
	return context.Cause(ctx)
}

// failed counts and logs an error that the client goes on after.
func (c *Consumer) failed(err error) {
	c.errors.Add(1)
	c.erred.Store(&readError{err, c.cfg.Now()})
	c.cfg.Log.Warn("kafka: the consumer has trouble and tries again", "topic", c.cfg.Topic, "group", c.cfg.Group,
		"err", err.Error()+hint(err))
}

type readError struct {
	err error
	at  time.Time
}

// readErrorFor is how long an error may be why no record comes.
const readErrorFor = 10 * time.Second

// newPartition is how long producers may take to write to a partition that is new to them and to us.
const newPartition = 15 * time.Second

// LastReceived is when the last record of our namespace came, the zero time before the first; whether
// producers write one into every partition each second, so that silence means that they are cut off;
// and what is wrong with the brokers, if that is known. Where they do, the partition that has been silent
// for longest says when: its keys are counted nowhere else. A member without a partition misses nothing.
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
	if outage := c.link.outage.Load(); outage != nil {
		err = *outage
	} else if m := c.erred.Load(); m != nil && !m.at.Before(last) && now.Sub(m.at) < readErrorFor {
		err = m.err
	}
	if idle && err == nil {
		last = now
	}
	return last, promised, err
}

// longestSilence is since when the partition with the longest silence has had no record, at the latest last, and what
// is wrong with it. The caller holds mu.
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
