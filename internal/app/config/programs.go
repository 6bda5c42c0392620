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
	Rules string `name:"rules" placeholder:"STORE" help:"Source of the rules in place of the file of --config: redis: or etcd:KEY."`
	Etcd  Etcd   `embed:"" prefix:"etcd."`
}

type Collector struct {
	Common
	RuleSource
	// Destination of counts: auto, kafka, statsd or both. auto selects the configured transport; both sends to Kafka
	// and, for the history in Graphite, to StatsD.
	Out    string   `group:"counts" name:"collector.out" enum:"auto,kafka,statsd,both" default:"auto" help:"Destination of counts: ${enum}."`
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
	// Name of this aggregator in Redis, unique except in a pair: two aggregators with the same name form an
	// active/standby pair; with Kafka the second one reads nothing until the lease of the first one ends. Default: host
	// name.
	ID string `group:"operate" name:"aggregator.id" help:"Name of this aggregator in Redis."`
	// Time for which a silent aggregator keeps its name; then its standby takes over. It must be less than
	// --detect.hot_ttl.
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
	// Destination of this sidecar's counts: auto, none, kafka or statsd. auto selects the configured transport; with
	// none the middleware or collector counts the requests.
	Count string `group:"counts" name:"sidecar.count" enum:"auto,none,kafka,statsd" default:"auto" help:"Destination of the sidecar's counts: ${enum}."`
	Counts
	Redis   Redis   `embed:"" prefix:"redis."`
	State   State   `embed:"" prefix:"state."`
	Gate    Gate    `embed:"" prefix:"gate."`
	Denials Denials `embed:"" prefix:"denials."`
	Admin   Admin   `embed:"" prefix:"admin."`
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
	Denials       Denials       `embed:"" prefix:"denials."`
	Admin         Admin         `embed:"" prefix:"admin."`
}

// Doctor is the surface of hotparam doctor: the settings of the programs that locate other systems, and additional
// places to inspect.
type Doctor struct {
	Config      string      `short:"c" placeholder:"FILE" help:"YAML file with rules and settings: the file of the programs."`
	Rules       string      `name:"rules" placeholder:"STORE" help:"Source of the rules in place of the file of --config: redis: or etcd:KEY."`
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

// LogFormat returns the format that two options select, or "" if the format is detected.
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
