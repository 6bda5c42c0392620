package config

import "time"

// Common settings are in every program.
type Common struct {
	Config string `short:"c" placeholder:"FILE" help:"YAML file with the rules and any of these settings. Read again when it changes and on SIGHUP."`
	Log    Log    `embed:"" prefix:"log."`
	Stop   Stop   `embed:"" prefix:"stop."`
}

// Log says how the program reports.
type Log struct {
	Level  string `enum:"debug,info,warn,error" default:"info" help:"Least level that is logged: ${enum}."`
	Format string `enum:"text,json" default:"text" help:"Form of the log lines: ${enum}."`
}

// Stop bounds the graceful stop.
type Stop struct {
	Timeout time.Duration `default:"10s" help:"How long the program may take to hand over what it holds after SIGTERM."`
}

// Redis is where hot set, overrides and shared limits live.
type Redis struct {
	Addr     []string      `placeholder:"HOST:PORT" help:"Redis server, or several nodes of one Redis Cluster."`
	Username string        `help:"User for AUTH."`
	Password string        `help:"Password for AUTH. Better set by the environment than as a flag."`
	DB       int           `default:"0" help:"Database number; a cluster has only 0."`
	TLS      bool          `help:"Connect by TLS."`
	Timeout  time.Duration `default:"500ms" help:"Longest wait for one answer outside of decisions."`
}

// Kafka is the topic that carries counts.
type Kafka struct {
	Brokers    []string      `placeholder:"HOST:PORT" help:"Kafka brokers to begin with."`
	Topic      string        `default:"hotparam-counts" help:"Topic of the counts."`
	Group      string        `default:"hotparam-aggregator" help:"Consumer group of the aggregators."`
	Partitions int32         `default:"8" help:"Partitions of the topic if it has to be created."`
	Create     bool          `default:"true" negatable:"" help:"Create the topic if it is missing."`
	Backlog    time.Duration `default:"10s" help:"How far back a consumer without a position begins."`
	TLS        bool          `help:"Connect by TLS."`
	Username   string        `help:"User for SASL/PLAIN."`
	Password   string        `help:"Password for SASL/PLAIN."`
}

// Names is how keys are written as metrics. All programs that meet must agree.
type Names struct {
	Prefix string `default:"hotparam" help:"First part of every metric name."`
	Style  string `enum:"hp1,plain" default:"hp1" help:"Form of metric names: hp1 survives every StatsD server, plain is easier to read."`
}

// StatsDOut is the StatsD server that counts are sent to.
type StatsDOut struct {
	Addr string `placeholder:"HOST:PORT" help:"StatsD server that counts are sent to."`
	MTU  int    `default:"1432" help:"Bytes of one datagram."`
}

// StatsDIn is the StatsD listener.
type StatsDIn struct {
	Listen     string `placeholder:"HOST:PORT" help:"UDP address to take StatsD counts on."`
	ReadBuffer int    `default:"16777216" help:"Receive buffer to ask the kernel for, in bytes."`
}

// Tally is how counts are combined before they are sent.
type Tally struct {
	Flush   time.Duration `default:"100ms" help:"How often sums are handed on."`
	MaxKeys int           `default:"65536" help:"Most keys between two flushes; further ones are dropped and counted."`
}

// Detect is how hot keys are found.
type Detect struct {
	Tick     time.Duration `default:"100ms" help:"How often heat is judged; a key that crosses its threshold is published at once."`
	Hold     time.Duration `default:"5s" help:"How long a hot key stays without being published again."`
	Lateness time.Duration `default:"10s" help:"Oldest count that still has a place in its window."`
	MaxKeys  int           `default:"1000000" help:"Most keys counted per rule; further ones are dropped and counted."`
}

// Gate is how requests are decided.
type Gate struct {
	Budget   time.Duration `default:"20ms" help:"Longest wait for Redis in one decision."`
	MaxIPs   int           `name:"max-subjects" default:"1000000" help:"Most clients and keys held in memory by the in-process limits."`
	Instance string        `help:"Name of this limiter in reports. Default: host name, process and start."`
}

// Admin is the operators' listener: dashboard, API, metrics, health.
type Admin struct {
	Listen string `default:"${admin_listen}" placeholder:"HOST:PORT" help:"Address of dashboard, API, metrics and health; empty for none (default: ${admin_listen})."`
	Token  string `help:"Password of the admin listener; required off loopback."`
}

// Proxy is the reverse proxy.
type Proxy struct {
	Listen    string            `placeholder:"HOST:PORT" help:"Address of the reverse proxy."`
	Upstream  string            `placeholder:"URL" help:"Where allowed requests go."`
	Upstreams map[string]string `placeholder:"NAME=URL" help:"Upstreams for classes, by the name that their rule gives."`
	Timeout   time.Duration     `default:"30s" help:"Longest wait for the first byte of an answer."`
}

// State is where one process keeps overrides.
type State struct {
	Dir string `default:"hotparam-state" placeholder:"DIR" help:"Directory in which overrides survive a restart."`
}

// Collector is the surface of cmd/collector.
type Collector struct {
	Common
	Out    string   `name:"collector.out" enum:"auto,kafka,statsd,both" default:"auto" help:"Where counts go: ${enum}. auto takes the one that is configured; both sends to Kafka and, for the history in Graphite, to StatsD."`
	In     StatsDIn `embed:"" prefix:"statsd."`
	Mirror Mirror   `embed:"" prefix:"mirror."`
	Access Access   `embed:"" prefix:"accesslog."`
	Counts
	Admin Admin `embed:"" prefix:"admin."`
}

// Counts is how a program sends counts on.
type Counts struct {
	Names  Names     `embed:"" prefix:"names."`
	StatsD StatsDOut `embed:"" prefix:"statsd."`
	Kafka  Kafka     `embed:"" prefix:"kafka."`
	Tally  Tally     `embed:"" prefix:"tally."`
}

// Mirror is the listener for copies of requests.
type Mirror struct {
	Listen       string `placeholder:"HOST:PORT" help:"HTTP address to take mirrored requests on."`
	URIHeader    string `name:"uri-header" default:"X-Original-URI" help:"Header with the original request target; empty: the mirrored request's own."`
	MethodHeader string `name:"method-header" default:"X-Original-Method" help:"Header with the original method; empty: the mirrored request's own."`
}

// Access is access logs as a source.
type Access struct {
	File   []string `placeholder:"FILE" help:"Access log to follow; - is standard input."`
	Format string   `enum:"auto,combined,events,jsonl" default:"auto" help:"Form of the lines: ${enum}."`
}

// Aggregator is the surface of cmd/aggregator.
type Aggregator struct {
	Common
	ID     string   `name:"aggregator.id" help:"Name of this aggregator in Redis; give each its own. Default: host name and StatsD or Kafka."`
	In     StatsDIn `embed:"" prefix:"statsd."`
	Names  Names    `embed:"" prefix:"names."`
	Kafka  Kafka    `embed:"" prefix:"kafka."`
	Redis  Redis    `embed:"" prefix:"redis."`
	Detect Detect   `embed:"" prefix:"detect."`
	Trim   string   `name:"aggregator.trim" default:"@every 10m" help:"Schedule (cron) on which expired overrides and old audit entries are removed."`
	Admin  Admin    `embed:"" prefix:"admin."`
}

// Sidecar is the surface of cmd/limiter-sidecar.
type Sidecar struct {
	Common
	Decide Decide `embed:"" prefix:"decide."`
	Proxy  Proxy  `embed:"" prefix:"proxy."`
	Count  string `name:"sidecar.count" enum:"auto,none,kafka,statsd" default:"auto" help:"Where the requests that pass here are counted: ${enum}. auto takes the one that is configured, none leaves it to the middleware or collector."`
	Counts
	Redis Redis `embed:"" prefix:"redis."`
	Gate  Gate  `embed:"" prefix:"gate."`
	Admin Admin `embed:"" prefix:"admin."`
}

// Decide is the decision API.
type Decide struct {
	Listen string `default:"127.0.0.1:8181" placeholder:"HOST:PORT" help:"Address of POST /v1/decide; empty for none."`
}

// Serve is the surface of hotparam serve.
type Serve struct {
	Common
	Proxy  Proxy  `embed:"" prefix:"proxy."`
	State  State  `embed:"" prefix:"state."`
	Tally  Tally  `embed:"" prefix:"tally."`
	Detect Detect `embed:"" prefix:"detect."`
	Gate   Gate   `embed:"" prefix:"gate."`
	Admin  Admin  `embed:"" prefix:"admin."`
}
