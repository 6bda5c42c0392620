package pipeline

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
)

// Command carries out a command: in this process, and where processes share a store in
// all of them, a moment later. It says how many answers were removed here.
func (p *Pipeline) Command(ctx context.Context, c hottype.Command) (purged int, err error) {
	if p.Feed == nil {
		return p.execute(time.Now(), c), nil
	}
	if c.Action == hottype.CommandPurge { // doing it twice does no harm, and says how many
		purged = p.execute(time.Now(), c)
	}
	return purged, SendCommand(ctx, p.Feed, p.Limits, p.Gate.Rules(), c)
}

// SendCommand has all processes that share a store carry out a command. What the store itself
// counts is dropped here, once, before it can be read again.
func SendCommand(ctx context.Context, feed *rediscontrol.Feed, limits *redislimits.Limiter, set *rules.Set,
	c hottype.Command) error {
	if c.Action == hottype.CommandReset {
		if err := limits.ResetAll(ctx, gate.CountedSubjects(set, c)); err != nil {
			return err
		}
	}
	return feed.SendCommand(ctx, c)
}

// execute carries out a command in this process.
func (p *Pipeline) execute(now time.Time, c hottype.Command) (purged int) {
	switch c.Action {
	case hottype.CommandReset:
		if p.Prefetch != nil {
			for _, charge := range gate.CountedSubjects(p.Gate.Rules(), c) {
				p.Prefetch.Reset(&charge.Subject)
			}
		}
		p.Gate.Reset(now, c)
	case hottype.CommandPurge:
		if p.cache != nil {
			return p.cache.Purge(c.Key)
		}
	}
	return 0
}
