package run

import (
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
)

// sources says what is heard of each source of counts that is configured. They
// are asked when all parts have been built.
func (a *aggregator) sources(cfg config.Aggregator) map[string]func() aggregate.LastHeard {
	list := map[string]func() aggregate.LastHeard{}
	if len(cfg.In.Listen) > 0 {
		list["statsd"] = func() (h aggregate.LastHeard) {
			h.At, h.Promised = a.listener.LastHeard()
			return h
		}
	}
	if len(cfg.Kafka.Brokers) > 0 {
		list["kafka"] = func() (h aggregate.LastHeard) {
			var err error
			if h.At, h.Promised, err = a.consumer.LastHeard(); err != nil {
				h.Err = err.Error()
			}
			return h
		}
	}
	if cfg.Graphite.URL != "" {
		list["graphite"] = func() aggregate.LastHeard {
			st := a.poller.Stats()
			return aggregate.LastHeard{At: st.LastSuccess, Err: st.Err}
		}
	}
	return list
}
