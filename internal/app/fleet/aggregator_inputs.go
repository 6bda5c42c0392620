package fleet

import (
	"context"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// openInputs opens the sources of counts: StatsD, Kafka and Graphite.
func (a *aggregator) openInputs(ctx context.Context, set *rules.Set) (err error) {
	cfg := a.cfg
	take := func(counts []hottype.Count) {
		_ = a.parts.Aggregate.Send(ctx, counts) // accepts everything, and counts its own losses
	}
	if len(cfg.In.Listen) > 0 {
		if a.listener, err = newListener(cfg.In, cfg.Names, take, &a.stood, a.log); err != nil {
			return err
		}
	}
	if len(cfg.Kafka.Brokers) > 0 {
		if a.consumer, err = newConsumer(cfg, set, take, a.parts.Aggregate, a.log); err != nil {
			return err
		}
	}
	if cfg.Graphite.URL != "" {
		if a.poller, err = NewPoller(cfg.Graphite, cfg.Names, set, take, a.log); err != nil {
			return err
		}
		if a.listener != nil || a.consumer != nil {
			a.log.Warn("counts come from Graphite and from elsewhere too: a request that comes both ways counts twice")
		}
	}
	return nil
}
