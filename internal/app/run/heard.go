package run

import (
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
)

// sources says what is heard of each source of counts that is configured. They
// are asked when all parts have been built.
func (a *aggregator) sources(cfg config.Aggregator) map[string]func() aggregate.Heard {
	list := map[string]func() aggregate.Heard{}
	if len(cfg.In.Listen) > 0 {
		list["statsd"] = func() (h aggregate.Heard) {
			h.At, h.Promised = a.listener.Heard()
			return h
		}
	}
	if len(cfg.Kafka.Brokers) > 0 {
		list["kafka"] = func() (h aggregate.Heard) {
			var err error
			if h.At, h.Promised, err = a.consumer.Heard(); err != nil {
				h.Err = err.Error()
			}
			return h
		}
	}
	if cfg.Graphite.URL != "" {
		list["graphite"] = func() aggregate.Heard {
			st := a.poller.Stats()
			return aggregate.Heard{At: st.LastSuccess, Err: st.Err}
		}
	}
	return list
}
