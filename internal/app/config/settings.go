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
	Timeout  time.Duration `default:"500ms" help:"Longest call outside of decisions, with dialling and redirects."`
	// Keep is for limiters and aggregators alike, so it stands with the store
	// that they share.
	Keep time.Duration `name:"hot_ttl_blind" default:"10m" help:"How long hot keys stay hot when their aggregator has fallen silent or gets no counts; at most 24h. 0: not at all."`
}

// Kafka is the topic that carries counts.
type Kafka struct {
	Brokers    []string `placeholder:"HOST:PORT" help:"Kafka brokers to begin with."`
	Topic      string   `default:"hotparam-counts" help:"Topic of the counts."`
	Partitions int32    `default:"0" help:"Partitions that the topic should have; another number is told in the log. 0: as many as it has, and 8 if it has to be created."`
	Create     bool     `default:"true" negatable:"" help:"Create the topic if it is missing."`
	TLS        bool     `help:"Connect by TLS."`
	CA         string   `name:"tls-ca" placeholder:"FILE" help:"Certificates (PEM) of who signs those of the brokers; default: those that the system trusts."`
	Cert       string   `name:"tls-cert" placeholder:"FILE" help:"Certificate (PEM) to show to the brokers."`
	Key        string   `name:"tls-key" placeholder:"FILE" help:"Key (PEM) of that certificate."`
	ServerName string   `name:"tls-name" help:"Name in the brokers' certificates if it is not the host that is dialled."`
	SASL       string   `name:"sasl" enum:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" default:"PLAIN" help:"How to log in if there is a user: ${enum}. PLAIN shows the password to whoever can read the connection."`
	Username   string   `help:"User for SASL."`
	Password   string   `help:"Password for SASL. Better set by the environment than as a flag."`
}

// KafkaGroup is how aggregators share the partitions.
type KafkaGroup struct {
	Group          string        `default:"hotparam-aggregator" help:"Consumer group of the aggregators."`
	Backlog        time.Duration `default:"10s" help:"How far back a partition is read when it is taken over; at least the longest window of the rules and 5 s."`
	MaxLag         time.Duration `default:"30s" help:"How far behind its end a partition may be read, at least two backlogs; further behind, reading jumps to the backlog."`
	Instance       string        `help:"Name of a static member of the group: a restart within the session timeout moves no partition, a stop hands them over only after it. Each aggregator needs its own. Default: a dynamic member."`
	SessionTimeout time.Duration `default:"10s" help:"When an aggregator that the brokers do not hear of has left the group."`
}

// Names is how keys are written as metrics. All programs that meet must agree.
type Names struct {
	Prefix string `default:"hotparam" help:"First part of every metric name."`
	Style  string `enum:"hp1,plain" default:"hp1" help:"Form of metric names: hp1 survives every StatsD server, plain is easier to read."`
}

// StatsDOut is where counts are sent to by StatsD.
type StatsDOut struct {
	Addr    []string `placeholder:"HOST:PORT" help:"StatsD servers that counts are sent to, or unix:/path. Of several each has its share of the keys; give all programs the same list."`
	Standby []string `placeholder:"HOST:PORT" help:"StatsD servers that get every count as well: where the standby of each aggregator listens."`
	MTU     int      `default:"1432" help:"Bytes of one datagram."`
	Sets    bool     `default:"true" negatable:"" help:"Also send who stands behind a key, as StatsD sets; not for servers that do not know them."`
}

// StatsDIn is the StatsD listener.
type StatsDIn struct {
	Listen         []string      `placeholder:"HOST:PORT" help:"Addresses to take StatsD lines on: host:port or udp://host:port, tcp://host:port, unix:/path (datagrams), unixstream:/path."`
	Readers        int           `default:"1" help:"UDP sockets that share an address, each read by a goroutine of its own. Linux only."`
	ReadBuffer     int           `default:"16777216" help:"Receive buffer to ask the kernel for, in bytes, for each socket."`
	MaxConnections int           `name:"max-connections" default:"1024" help:"Most connections at once to tcp:// and unixstream: addresses; further ones are closed."`
	Idle           time.Duration `default:"5m" help:"How long a connection may be silent before it is closed."`
	Allow          []string      `placeholder:"NETWORK" help:"Networks or addresses whose lines are read; others' are counted and not read. Default: everybody's. Whoever may send lines can make a key hot."`
	MaxCount       int64         `name:"max-count" default:"1099511627776" help:"Most requests that one line may count; a line with more is malformed. What one sender can honestly count of one key in a flush bounds what a forged line can do."`
	Forward        string        `aliases:"forward" placeholder:"HOST:PORT" help:"StatsD server that gets all lines which are not ours, unchanged, by UDP or unix:/path. Also --forward."`
	ForwardAll     bool          `name:"forward-all" help:"Forward our lines too, for their history in Graphite."`
}

// Graphite is the render API that counts are asked from.
type Graphite struct {
	URL       string             `name:"url" placeholder:"URL" help:"Graphite (graphite-web 1.1) to ask for counts, such as http://127.0.0.1:8080."`
	Schedule  string             `default:"@every 1s" help:"Schedule (cron, with seconds) on which it is asked."`
	Settle    time.Duration      `default:"200ms" help:"How long after the full second to ask at the earliest; the StatsD server flushes on the second."`
	Timeout   time.Duration      `default:"5s" help:"Longest wait for all answers of one poll; polls that would overlap are left out."`
	Prefix    string             `default:"stats_counts" help:"What the StatsD server writes before our names: stats_counts, or stats.counters of its newer namespace."`
	Suffix    string             `enum:",count,rate" default:"" help:"What it writes behind them: nothing, or count or rate of its newer namespace."`
	Flush     time.Duration      `default:"1s" help:"Flush interval of the StatsD server, in whole seconds."`
	Targets   map[string]Targets `placeholder:"RULE=TARGET" help:"Targets of a rule instead of the one made from prefix and names, sent as they are but {threshold}, which becomes the rule's."`
	Username  string             `help:"User for basic authentication."`
	Password  string             `help:"Password for it. Better set by the environment than as a flag."`
	Header    map[string]string  `placeholder:"NAME=VALUE" help:"Headers to send, such as Authorization=Bearer x."`
	MaxBody   int64              `name:"max-body" default:"33554432" help:"Longest answer, in bytes."`
	MaxSeries int                `name:"max-series" default:"200000" help:"Most series to remember; further ones are dropped and counted."`
}

// Tally is how counts are combined before they are sent.
type Tally struct {
	Flush   time.Duration `default:"100ms" help:"How often sums are handed on."`
	MaxKeys int           `default:"65536" help:"Most keys between two flushes; further ones are dropped and counted."`
	Clients int           `default:"1024" help:"For how many of the heaviest keys it is looked at who asks, so that a client in a loop can be told from a crowd; 0 for none. Takes up to about 1.2 KB for each of them and core, twice that while a second turns."`
}

// Detect is how hot keys are found.
type Detect struct {
	Tick     time.Duration `default:"100ms" help:"How often heat is judged; a key that crosses its threshold is published at once."`
	Hold     time.Duration `default:"5s" help:"For how long a publication vouches for hot keys. What is not renewed by then is kept as redis.hot_ttl_blind says."`
	Lateness time.Duration `default:"10s" help:"Oldest count that still has a place in its window."`
	Counters int           `default:"131072" help:"Most counters for each rule, of about 200 bytes: a key takes one for each second of the window in which it is seen. Beyond it the lightest keys are given up, and counts have a known error."`
	MaxRate  float64       `name:"max-rate" default:"0" help:"Most requests per second that one rule is expected to get, unless it says max_rate itself; 0: not stated. With it, counters that could not find every hot key are refused."`
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
	ID       string        `name:"aggregator.id" help:"Name of this aggregator in Redis; give each its own. Two with the same name are one that publishes and one that stands by. Default: host name."`
	Lease    time.Duration `name:"aggregator.lease" default:"2s" help:"How long an aggregator that falls silent keeps its name; then one that stands by takes over. Less than --detect.hold."`
	In       StatsDIn      `embed:"" prefix:"statsd."`
	Names    Names         `embed:"" prefix:"names."`
	Kafka    Kafka         `embed:"" prefix:"kafka."`
	Group    KafkaGroup    `embed:"" prefix:"kafka."`
	Graphite Graphite      `embed:"" prefix:"graphite."`
	Redis    Redis         `embed:"" prefix:"redis."`
	Detect   Detect        `embed:"" prefix:"detect."`
	Trim     string        `name:"aggregator.trim" default:"@every 10m" help:"Schedule (cron) on which expired overrides and old audit entries are removed."`
	Admin    Admin         `embed:"" prefix:"admin."`
}

// Sidecar is the surface of cmd/limiter-sidecar.
type Sidecar struct {
	Common
	Decide Decide `embed:"" prefix:"decide."`
	Proxy  Proxy  `embed:"" prefix:"proxy."`
	Lease  int64  `name:"sidecar.lease" default:"0" help:"Most cost of one very hot key that this limiter may take from Redis ahead of its requests, to decide them in memory; 0: none. So much more may pass in a moment, for each limiter."`
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

// Check is the surface of hotparam check: the settings of the programs that say
// where things are, and where to look besides.
type Check struct {
	Config   string     `short:"c" placeholder:"FILE" help:"YAML file with the rules and any of these settings, as the programs have it."`
	In       StatsDIn   `embed:"" prefix:"statsd."`
	StatsD   StatsDOut  `embed:"" prefix:"statsd."`
	Look     StatsDAt   `embed:"" prefix:"statsd."`
	Carbon   Carbon     `embed:"" prefix:"carbon."`
	Names    Names      `embed:"" prefix:"names."`
	Kafka    Kafka      `embed:"" prefix:"kafka."`
	Group    KafkaGroup `embed:"" prefix:"kafka."`
	Redis    Redis      `embed:"" prefix:"redis."`
	Gate     Gate       `embed:"" prefix:"gate."`
	Detect   Detect     `embed:"" prefix:"detect."`
	Graphite Graphite   `embed:"" prefix:"graphite."`
	Tally    Tally      `embed:"" prefix:"tally."`
}

// StatsDAt is where a StatsD server tells how it is set up.
type StatsDAt struct {
	Admin  string `placeholder:"HOST:PORT" help:"Management interface of a Node.js StatsD server, such as 127.0.0.1:8126."`
	Config string `placeholder:"FILE" help:"Its config.js."`
}

// Carbon is where Graphite's carbon is set up.
type Carbon struct {
	Conf string `placeholder:"DIR" help:"Directory of carbon.conf, storage-schemas.conf and storage-aggregation.conf."`
}
