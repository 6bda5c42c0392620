package config

import (
	"time"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// Common settings are in every program.
type Common struct {
	Config  string  `short:"c" placeholder:"FILE" help:"YAML file with rules and settings; read again when it changes."`
	Log     Log     `embed:"" prefix:"log."`
	Privacy Privacy `embed:"" prefix:"privacy."`
	Stop    Stop    `embed:"" prefix:"stop."`
}

// RuleSource names the source of a program's rules.
type RuleSource struct {
	Rules string `name:"rules" placeholder:"STORE" help:"Where the rules are from: redis: or etcd:KEY, instead of the file of --config."`
	Etcd  Etcd   `embed:"" prefix:"etcd."`
}

type Collector struct {
	Common
	RuleSource
	// Where counts go: auto, kafka, statsd or both. auto takes the one that is configured; both sends to Kafka and, for
	// the history in Graphite, to StatsD.
	Out    string   `group:"counts" name:"collector.out" enum:"auto,kafka,statsd,both" default:"auto" help:"Where counts go: ${enum}."`
	In     StatsDIn `embed:"" prefix:"statsd."`
	Mirror Mirror   `embed:"" prefix:"mirror."`
	Access Access   `embed:"" prefix:"accesslog."`
	Counts
	Redis Redis `embed:"" prefix:"redis."`
	State State `embed:"" prefix:"state."`
	Admin Admin `embed:"" prefix:"admin."`
}

// Counts holds the settings by which a program sends counts.
type Counts struct {
	Names  Names     `embed:"" prefix:"names."`
	StatsD StatsDOut `embed:"" prefix:"statsd."`
	Kafka  Kafka     `embed:"" prefix:"kafka."`
	Tally  Tally     `embed:"" prefix:"tally."`
}

type Aggregator struct {
	Common
	RuleSource
	// Name of this aggregator in Redis; give each its own. Two aggregators with one name form an active/standby pair;
	// with Kafka the second one reads nothing until the first one's lease ends. Default: host name.
	ID string `group:"operate" name:"aggregator.id" help:"Name of this aggregator in Redis."`
	// How long a silent aggregator keeps its name; then its standby takes over. Less than --detect.hot_ttl.
	Lease         time.Duration `name:"aggregator.lease" default:"2s" help:"Silence after which the standby takes over."`
	In            StatsDIn      `embed:"" prefix:"statsd."`
	Names         Names         `embed:"" prefix:"names."`
	Kafka         Kafka         `embed:"" prefix:"kafka."`
	Group         KafkaGroup    `embed:"" prefix:"kafka."`
	Graphite      Graphite      `embed:"" prefix:"graphite."`
	Redis         Redis         `embed:"" prefix:"redis."`
	Detect        Detect        `embed:"" prefix:"detect."`
	State         State         `embed:"" prefix:"state."`
	History       History       `embed:"" prefix:"history."`
	Notifications Notifications `embed:"" prefix:"notifications."`
	Admin         Admin         `embed:"" prefix:"admin."`
}

type Sidecar struct {
	Common
	RuleSource
	Gateways `set:"decide_listen=127.0.0.1:8181"`
	Proxy    Proxy  `embed:"" prefix:"proxy."`
	Answer   Answer `embed:"" prefix:"answer."`
	// Where the requests of this sidecar are counted: auto, none, kafka or statsd. auto takes the one that is
	// configured, with none the middleware or collector counts them.
	Count string `group:"counts" name:"sidecar.count" enum:"auto,none,kafka,statsd" default:"auto" help:"Where to count: ${enum}."`
	Counts
	Redis Redis `embed:"" prefix:"redis."`
	State State `embed:"" prefix:"state."`
	Gate  Gate  `embed:"" prefix:"gate."`
	Admin Admin `embed:"" prefix:"admin."`
}

// Gateways are the listeners for gateways and services.
type Gateways struct {
	Decide Decide      `embed:"" prefix:"decide."`
	Check  StatusCheck `embed:"" prefix:"check."`
	Envoy  Envoy       `embed:"" prefix:"envoy."`
	SPOE   SPOE        `embed:"" prefix:"spoe."`
	Edge   Edge        `embed:"" prefix:"edge."`
}

type Serve struct {
	Common
	RuleSource
	Gateways      `set:"decide_listen="`
	Redis         Redis         `embed:"" prefix:"redis."`
	Proxy         Proxy         `embed:"" prefix:"proxy."`
	Answer        Answer        `embed:"" prefix:"answer."`
	State         State         `embed:"" prefix:"state."`
	History       History       `embed:"" prefix:"history."`
	Notifications Notifications `embed:"" prefix:"notifications."`
	Tally         Tally         `embed:"" prefix:"tally."`
	Detect        Detect        `embed:"" prefix:"detect."`
	Gate          Gate          `embed:"" prefix:"gate."`
	Admin         Admin         `embed:"" prefix:"admin."`
}

// Doctor is the surface of hotparam doctor: the settings of the programs that locate other systems, and additional
// places to inspect.
type Doctor struct {
	Config      string      `short:"c" placeholder:"FILE" help:"YAML file with rules and settings, as the programs have it."`
	Rules       string      `name:"rules" placeholder:"STORE" help:"Where the rules are from: redis: or etcd:KEY, instead of the file of --config."`
	In          StatsDIn    `embed:"" prefix:"statsd."`
	StatsD      StatsDOut   `embed:"" prefix:"statsd."`
	StatsDAdmin StatsDAdmin `embed:"" prefix:"statsd."`
	Carbon      Carbon      `embed:"" prefix:"carbon."`
	Names       Names       `embed:"" prefix:"names."`
	Kafka       Kafka       `embed:"" prefix:"kafka."`
	Group       KafkaGroup  `embed:"" prefix:"kafka."`
	Redis       Redis       `embed:"" prefix:"redis."`
	Gate        Gate        `embed:"" prefix:"gate."`
	Detect      Detect      `embed:"" prefix:"detect."`
	Graphite    Graphite    `embed:"" prefix:"graphite."`
	Tally       Tally       `embed:"" prefix:"tally."`
}

// Names holds the form of keys as metrics. All programs of a pipeline must agree on it.
type Names struct {
	Prefix string `default:"hotparam" help:"First part of every metric name."`
	// Form of metric names: hp1 survives every StatsD server, plain is easier to read.
	Style string `enum:"hp1,plain" default:"hp1" help:"Form of metric names: ${enum}."`
}

// Metric returns the names in their written form.
func (n Names) Metric() (canon.Names, error) {
	names := canon.Names{Prefix: n.Prefix, Style: canon.Style(n.Style)}
	return names, names.Validate()
}

// LogFormat returns the format that two options select, or "" if it is to be detected.
func LogFormat(name, custom string) (accesslog.Format, error) {
	if custom != "" {
		f, err := accesslog.Custom(custom)
		if err != nil {
			return "", Usage("%w", err)
		}
		return f, nil
	}
	if name == "auto" {
		return "", nil
	}
	return accesslog.Format(name), nil
}
