package program

import (
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
)

// sources says what is heard of each source of counts that is configured. They
// are asked when all parts have been built.
func (a *aggregator) sources(cfg config.Aggregator) map[string]func() aggregate.SourceStatus {
	list := map[string]func() aggregate.SourceStatus{}
	if len(cfg.In.Listen) > 0 {
		list["statsd"] = func() (h aggregate.SourceStatus) {
			h.At, h.Heartbeats = a.listener.LastHeard()
			return h
		}
	}
	if len(cfg.Kafka.Brokers) > 0 {
		list["kafka"] = func() (h aggregate.SourceStatus) {
			var err error
			if h.At, h.Heartbeats, err = a.consumer.LastHeard(); err != nil {
				h.Err = err.Error()
			}
			return h
		}
	}
	if cfg.Graphite.URL != "" {
		list["graphite"] = func() aggregate.SourceStatus {
			st := a.poller.Stats()
			return aggregate.SourceStatus{At: st.LastSuccess, Err: st.Err}
		}
	}
	return list
}
