package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/transport/graphite"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/statsd"
	"github.com/hotparam/pipeline/internal/wait"
)

type sink struct {
	tally.Sink
	name    string // "kafka" or "statsd"
	run     func(context.Context) error
	metrics metrics.Collector
	// outage returns the error because of which counts cannot be sent. It is nil for StatsD, whose losses are no reason
	// to take a limiter out of service.
	outage   func() error
	statsd   func() (text string, ok bool) // reports for people whether counts arrive; nil: Kafka
	arrivals *rediscontrol.Arrivals        // nil: Kafka
}

// readyChecks returns the checks of /readyz for s.
func (s *sink) readyChecks() map[string]func(context.Context) error {
	if s.outage == nil {
		return nil
	}
	return map[string]func(context.Context) error{s.name: func(context.Context) error { return s.outage() }}
}

// adminStatus returns the line of the dashboard about s, or nil if s is nil.
func (s *sink) adminStatus() []admin.Status {
	switch {
	case s == nil:
		return nil
	case s.statsd != nil:
		text, ok := s.statsd()
		return []admin.Status{{Name: s.name, Value: text, OK: ok}}
	}
	if err := s.outage(); err != nil {
		return []admin.Status{{Name: s.name, Value: err.Error() + ": nothing that is counted here becomes hot"}}
	}
	return []admin.Status{{Name: s.name, Value: "takes counts", OK: true}}
}

// Run sends counts until ctx ends and all are sent.
func (s *sink) Run(ctx context.Context) error { return s.run(ctx) }

// metricNames returns the names of metrics for StatsD.
func metricNames(cfg config.Names) (canon.Names, error) {
	names, err := cfg.Metric()
	if err != nil {
		err = fmt.Errorf("%w (--names.prefix, --names.style)", err)
	}
	return names, err
}

// chooseTransport resolves a setting auto|kafka|statsd. auto means the transport that is configured. It is an error if
// both are.
func chooseTransport(setting, flag string, haveKafka, haveStatsD bool) (string, error) {
	switch {
	case setting != "auto":
		if !haveKafka && (setting == "kafka" || setting == "both") {
			return "", config.Usage("--%s=%s needs --kafka.brokers", flag, setting)
		}
		if !haveStatsD && (setting == "statsd" || setting == "both") {
			return "", config.Usage("--%s=%s needs --statsd.addr", flag, setting)
		}
		return setting, nil
	case haveKafka && haveStatsD:
		return "", config.Usage("--kafka.brokers and --statsd.addr are both set: say which one takes the counts with --%s",
			flag)
	case haveKafka:
		return "kafka", nil
	case haveStatsD:
		return "statsd", nil
	}
	return "none", nil
}

// newSink returns a sink of a kind. relay, which may be nil, returns the counts that this program receives by StatsD
// itself. The program runs stood.
func newSink(kind string, c config.Counts, namespace string, relay func() map[string]arrival.Flow,
	stood *wait.Standstill, log *slog.Logger) (*sink, error) {
	if kind == "kafka" {
		p, err := kafka.NewProducer(kafka.ProducerConfig{Config: KafkaConfig(c.Kafka, namespace, log)})
		if err != nil {
			return nil, err
		}
		return &sink{Sink: p, name: kind, run: p.Run, metrics: metrics.Of(p.Stats), outage: p.Outage}, nil
	}
	names, err := metricNames(c.Names)
	if err != nil {
		return nil, err
	}
	out, err := statsd.NewSender(statsd.SenderConfig{
		Servers: c.StatsD.Addr, Standby: c.StatsD.Standby, MTU: c.StatsD.MTU, NoSets: !c.StatsD.Sets,
		Interval: c.Tally.Flush, Names: names, Relay: relay, Standstill: stood, Log: log})
	if err != nil {
		return nil, fmt.Errorf("%w (--statsd.addr, --statsd.standby)", err)
	}
	s := &sink{Sink: out, name: kind, run: out.Run, metrics: metrics.Of(out.Stats), statsd: out.Status}
	s.arrivals = &rediscontrol.Arrivals{FlowIDs: out.FlowIDs, Observe: func(r arrival.Report) { out.Observe(r) }}
	return s, nil
}

// tee sends counts to the sink that detection reads, and then to the sink that keeps their history.
type tee struct{ primary, history tally.Sink }

// Send fails only if the primary sink fails. The history counts its own losses. Nothing waits for it, and nothing is
// sent twice because of it.
func (t tee) Send(ctx context.Context, counts []hottype.Count) error {
	copied := slices.Clone(counts) // the primary sink keeps its argument
	if err := t.primary.Send(ctx, counts); err != nil {
		return err
	}
	_ = t.history.Send(ctx, copied)
	return nil
}

// newConsumer returns a consumer that passes the counts of Kafka to handle. It notifies the aggregator of partitions
// that come and go.
func newConsumer(cfg config.Aggregator, set *rules.Set, handle func([]hottype.Count), agg *aggregate.Aggregator,
	log *slog.Logger) (*kafka.Consumer, error) {
	c := kafka.ConsumerConfig{
		Config: KafkaConfig(cfg.Kafka, set.Namespace, log), Handle: handle, Taken: agg.ForgetPast, Lost: agg.Forget,
		Backlog: backlogTime(cfg.Group, set), MaxLag: cfg.Group.MaxLag, Instance: cfg.Group.Instance,
		SessionTimeout: cfg.Group.SessionTimeout,
	}
	c.Group = cfg.Group.Name(set.Namespace)
	return kafka.NewConsumer(c)
}

// unreadTime returns the time for which brokers wait for an aggregator that died before another may read its
// partitions.
func unreadTime(cfg config.Aggregator) time.Duration {
	if len(cfg.Kafka.Brokers) == 0 || cfg.Group.Instance != "" {
		return 0
	}
	return cfg.Group.SessionTimeout
}

// backlogTime returns how far back a partition has to be read so that every window of the rules is full: the longest
// window, and the time that may lie between a request and the record that counts it.
func backlogTime(cfg config.KafkaGroup, set *rules.Set) time.Duration {
	longest := cfg.Backlog
	for _, r := range set.Rules {
		longest = max(longest, r.Hot.Window+5*time.Second)
	}
	return longest
}

// newListener binds the addresses of StatsD. The program runs stood.
func newListener(in config.StatsDIn, n config.Names, handle func([]hottype.Count), stood *wait.Standstill,
	log *slog.Logger) (*statsd.Listener, error) {
	names, err := metricNames(n)
	if err != nil {
		return nil, err
	}
	allow, err := statsd.ParseAllow(in.Allow)
	if err != nil {
		return nil, fmt.Errorf("%w (--statsd.allow)", err)
	}
	l, err := statsd.NewListener(statsd.ListenerConfig{
		Addresses: in.Listen, Names: names, Readers: in.Readers, ReadBuffer: in.ReadBuffer,
		MaxConnections: in.MaxConnections, Idle: in.IdleTimeout, Forward: in.Forward, ForwardAll: in.ForwardAll,
		Handle: handle, Log: log, Allow: allow, MaxCount: in.MaxCount, Standstill: stood,
	})
	if err != nil {
		return nil, fmt.Errorf("%w (--statsd.listen, --statsd.forward)", err)
	}
	return l, nil
}

func NewPoller(cfg config.Graphite, n config.Names, set *rules.Set, handle func([]hottype.Count),
	log *slog.Logger) (*graphite.Poller, error) {
	names, err := metricNames(n)
	if err != nil {
		return nil, err
	}
	targets := make(map[string][]string, len(cfg.Targets))
	for rule, list := range cfg.Targets {
		targets[rule] = list
	}
	header := make(http.Header, len(cfg.Header))
	for name, value := range cfg.Header {
		header.Set(name, value)
	}
	p, err := graphite.New(graphite.Config{
		URL: cfg.URL, Prefix: cfg.Prefix, Suffix: cfg.Suffix, Flush: cfg.Flush, Names: names, Rules: set,
		Targets: targets, Username: cfg.Username, Password: cfg.Password, Header: header, Timeout: cfg.Timeout,
		Settle: cfg.Settle, MaxBody: cfg.MaxBody, MaxSeries: cfg.MaxSeries, Handle: handle, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("%w (settings graphite.*)", err)
	}
	return p, nil
}

func pollGraphite(ctx context.Context, p *graphite.Poller, schedule string, log *slog.Logger) error {
	defer p.Close()
	err := program.OnSchedule(ctx, schedule, log, func(ctx context.Context) error {
		_ = p.Poll(ctx) // Poll logs outages itself
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w (--graphite.schedule, such as @every 1s or */2 * * * * *)", err)
	}
	return nil
}

func graphiteStatus(p *graphite.Poller) admin.Status {
	st, line := p.Stats(), admin.Status{Name: "graphite"}
	switch age := time.Since(st.LastSuccess); {
	case st.Err != "":
		line.Value = st.Err
	case st.LastSuccess.IsZero():
		line.Value = "not asked yet"
	default:
		line.Value, line.OK = fmt.Sprintf("answered %.1f s ago", age.Seconds()), age < time.Minute
	}
	return line
}
