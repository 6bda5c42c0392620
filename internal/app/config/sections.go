package config

import (
	"cmp"
	"strings"
	"time"
)

// The doc comment of a field is its text in docs/settings.md, and the help tag its text in --help. A field without a
// doc comment has the help tag in both.

// Log holds the level and form of the program's log.
type Log struct {
	Level  string `group:"operate" enum:"debug,info,warn,error" default:"info" help:"Lowest level that is logged: ${enum}."`
	Format string `group:"operate" enum:"text,json" default:"text" help:"Form of the log lines: ${enum}."`
}

// Privacy holds the key of the hashes of redacted values.
type Privacy struct {
	// Key of the hashes of redacted values (redact: hash), at least 16 bytes. All programs of a namespace need the same
	// key; after a change, old and new hashes of a value are two keys. Prefer the environment to a flag.
	Secret string `help:"Key of the hashes of redacted values."`
	// File that holds the key, without white space around it.
	SecretFile string `name:"secret_file" placeholder:"FILE" help:"File that holds the key of these hashes."`
}

// Stop bounds the graceful stop.
type Stop struct {
	// Maximum time of the graceful stop after SIGTERM, in which everything that is still held is delivered.
	Timeout time.Duration `default:"10s" help:"Longest graceful stop."`
	// Time during which listeners continue to accept after SIGTERM while /readyz reports not ready, so that balancers
	// send requests elsewhere before the port closes. The timeout begins after it; a second signal ends the program at
	// once.
	Delay time.Duration `default:"0s" help:"Time during which listeners accept after SIGTERM, not ready."`
}

// Redis is the server of the hot set, the overrides and the shared limits.
type Redis struct {
	Addr     []string `group:"state" placeholder:"HOST:PORT" help:"Redis server, or several nodes of one Redis Cluster."`
	Username string   `help:"User for AUTH."`
	// Password for AUTH. Prefer the environment to a flag.
	Password string `help:"Password for AUTH."`
	// File that holds the password. It is read for every connection, so that a new password needs no restart. While it
	// cannot be used, the previous password is sent.
	PasswordFile string `group:"state" name:"password_file" placeholder:"FILE" help:"File that holds the password for AUTH."`
	DB           int    `default:"0" help:"Database number; a cluster has only 0."`
	// Connect by TLS; rediss:// and each of the tls_ settings imply it. Their files are read for every connection.
	TLS   bool     `help:"Connect by TLS; rediss:// and each of the tls_ settings imply it."`
	Files TLSFiles `embed:"" prefix:"tls_" set:"of=Redis"`
	// Name of the master at the Sentinels; empty: no Sentinels. With a name, addr lists the Sentinels (usual port
	// 26379), user, password and database belong to the master, and TLS applies to both.
	SentinelMaster   string `name:"sentinel_master" placeholder:"NAME" help:"Name of the master; with it, addr lists the Sentinels."`
	SentinelUsername string `name:"sentinel_username" help:"User for AUTH at the Sentinels."`
	// Password for AUTH at the Sentinels. Prefer the environment to a flag.
	SentinelPassword string `name:"sentinel_password" help:"Password for AUTH at the Sentinels."`
	// File that holds the password for AUTH at the Sentinels; read as password_file.
	SentinelPasswordFile string `name:"sentinel_password_file" placeholder:"FILE" help:"File that holds the Sentinels' password."`
	// Longest call outside of decisions, including dialling and redirects.
	Timeout time.Duration `default:"500ms" help:"Longest call outside of decisions."`
	// Time for which hot keys stay hot while their aggregator is silent or receives no counts; up to 24h. 0: not at
	// all. Limiters and aggregators both need it.
	HotTTLNoInput time.Duration `name:"hot_ttl_no_input" default:"10m" help:"Time for which keys stay hot without news of them."`
}

// TLSFiles are the certificates of connections to a server.
type TLSFiles struct {
	// Authorities (PEM) that sign the server's certificate; default: the system's.
	CA         string `name:"ca" placeholder:"FILE" help:"Authorities (PEM) of the certificate of ${of}; default: the system's."`
	Cert       string `name:"cert" placeholder:"FILE" help:"Client certificate (PEM) for ${of}."`
	Key        string `name:"key" placeholder:"FILE" help:"Key (PEM) of the client certificate for ${of}."`
	ServerName string `name:"server_name" help:"Name in the certificate of ${of}; default: the dialled host."`
}

// Etcd is the store of rules with --rules etcd:KEY.
type Etcd struct {
	Addr     []string `placeholder:"HOST:PORT" help:"Members of the etcd cluster that holds the rules."`
	Username string   `help:"User of etcd."`
	// Password of the user of etcd. Prefer the environment to a flag.
	Password string        `help:"Password of the user of etcd."`
	TLS      bool          `help:"Connect to etcd by TLS; each of the tls_ settings implies it."`
	Files    TLSFiles      `embed:"" prefix:"tls_" set:"of=etcd"`
	Timeout  time.Duration `default:"2s" help:"Longest call to etcd."`
}

// Kafka is the topic that carries counts.
type Kafka struct {
	Brokers []string `group:"counts" placeholder:"HOST:PORT" help:"Kafka brokers for the first connection."`
	Topic   string   `default:"hotparam-counts" help:"Topic of the counts."`
	// Expected number of partitions of the topic; another number is logged. 0: the topic's own number, and 8 if the
	// topic is created.
	Partitions int32    `default:"0" help:"Partitions that the topic should have; 0: unchanged."`
	Create     bool     `default:"true" negatable:"" help:"Create the topic if it is missing."`
	TLS        bool     `help:"Connect by TLS."`
	Files      TLSFiles `embed:"" prefix:"tls_" set:"of=a broker"`
	// Mechanism of the login if a user is set: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. PLAIN reveals the password to a
	// reader of the connection.
	SASL     string `name:"sasl" enum:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" default:"PLAIN" help:"Mechanism of the login: ${enum}."`
	Username string `help:"User for SASL."`
	// Password for SASL. Prefer the environment to a flag.
	Password string `help:"Password for SASL."`
	// File that holds the password for SASL. It is read for new connections, so that a new password needs no restart.
	// While it cannot be used, the previous password is sent. Change the file first, then the brokers: logins in
	// between are refused and repeated, and producers keep counts for 10 s. With PLAIN an aggregator then joins its
	// group as a new member, which takes up to session_timeout; with SCRAM it stays a member.
	PasswordFile string `name:"password_file" placeholder:"FILE" help:"File that holds the password for SASL."`
}

// KafkaGroup holds the settings by which aggregators share the partitions.
type KafkaGroup struct {
	// Consumer group of the aggregators. Two namespaces need two groups: in a shared group each namespace would lose
	// the partitions assigned to the other. Default: hotparam-aggregator-NAMESPACE.
	Group string `help:"Consumer group of the aggregators of a namespace."`
	// Span of a partition that is read again at a takeover; at least the longest window of the rules plus 5 s.
	Backlog time.Duration `default:"10s" help:"Span of a partition that is read again at a takeover."`
	// Maximum lag behind the end of a partition, no less than two backlogs. Beyond it, reading jumps to the backlog.
	MaxLag time.Duration `name:"max_lag" default:"30s" help:"Lag beyond which reading jumps to the backlog."`
	// Name of a static member of the group: a restart within the session timeout moves no partition, and a stop hands
	// them over only after that timeout. Each aggregator needs its own name. Default: a dynamic member.
	Instance string `help:"Name of a static member of the group."`
	// Time without a heartbeat after which the brokers remove an aggregator from the group.
	SessionTimeout time.Duration `name:"session_timeout" default:"10s" help:"Silence after which a member is removed."`
}

// Name returns the group of the aggregators of a namespace.
func (g KafkaGroup) Name(namespace string) string {
	return cmp.Or(g.Group, "hotparam-aggregator-"+namespace)
}

// StatsDOut holds the StatsD servers to which counts are sent.
type StatsDOut struct {
	// StatsD servers that receive the counts, or unix:/path. Several servers divide the keys; all programs need the
	// same list.
	Addr []string `group:"counts" placeholder:"HOST:PORT" help:"StatsD servers that share the keys."`
	// StatsD servers that also receive every count: the addresses of each aggregator's standby.
	Standby []string `placeholder:"HOST:PORT" help:"StatsD servers that also receive every count."`
	MTU     int      `default:"1432" help:"Bytes of one datagram; a longer line is sent alone."`
	// Also send the clients of a key, as StatsD sets. Turn it off for servers without sets.
	Sets bool `default:"true" negatable:"" help:"Also send the clients of a key, as StatsD sets."`
}

// StatsDIn is the StatsD listener.
type StatsDIn struct {
	// Addresses that receive StatsD lines: host:port or udp://host:port, tcp://host:port, unix:/path (datagrams),
	// unixstream:/path.
	Listen []string `group:"counts" placeholder:"HOST:PORT" help:"Addresses that receive StatsD lines; also tcp://, unix:, unixstream:."`
	// UDP sockets that share an address, each read by a goroutine of its own. Linux only.
	Readers int `default:"1" help:"UDP sockets that share an address. Linux only."`
	// Receive buffer that is requested from the kernel for each socket, in bytes.
	ReadBuffer int `name:"read_buffer" default:"16777216" help:"Receive buffer of each socket, in bytes."`
	// Maximum number of open connections to tcp:// and unixstream: addresses; further ones are closed.
	MaxConnections int           `name:"max_connections" default:"1024" help:"Maximum number of open connections."`
	IdleTimeout    time.Duration `name:"idle_timeout" default:"5m" help:"Silence after which a connection is closed."`
	// Networks or addresses whose lines are read. Lines from elsewhere are counted and not read. Default: all. A sender
	// of lines can make a key hot.
	Allow []string `placeholder:"NETWORK" help:"Networks whose lines are read; default: all."`
	// Maximum number of requests in one line; a line with more is malformed. Choose the highest count of one key that a
	// sender can reach in a flush: it bounds the damage of a forged line.
	MaxCount int64 `name:"max_count" default:"1099511627776" help:"Maximum number of requests in one line."`
	// StatsD server that receives all lines of other metrics, unchanged, by UDP or unix:/path.
	Forward    string `placeholder:"HOST:PORT" help:"StatsD server that receives lines of other metrics."`
	ForwardAll bool   `name:"forward_all" help:"Forward hotparam's lines too, for their history in Graphite."`
}

// Graphite is the render API that is asked for counts.
type Graphite struct {
	// URL of the Graphite (graphite-web 1.1) that is polled for counts, such as http://127.0.0.1:8080.
	URL      string `group:"counts" name:"url" placeholder:"URL" help:"URL of the Graphite that is polled for counts."`
	Schedule string `default:"@every 1s" help:"Schedule of the polls (cron, with seconds)."`
	// Minimum delay of a poll after the full second, because the StatsD server flushes on the second.
	Settle time.Duration `default:"200ms" help:"Minimum delay of a poll after the full second."`
	// Longest wait for all responses of one poll. A poll that would overlap is skipped.
	Timeout time.Duration `default:"5s" help:"Longest wait for all responses of one poll."`
	// Prefix that the StatsD server adds to names: stats_counts, or stats.counters of its newer namespace.
	Prefix string `default:"stats_counts" help:"Prefix that the StatsD server adds to names."`
	// Suffix that the StatsD server adds to names: count or rate of its newer namespace; empty: no suffix.
	Suffix string        `enum:",count,rate" default:"" help:"Suffix that the StatsD server adds to names: count, rate or nothing."`
	Flush  time.Duration `default:"1s" help:"Flush interval of the StatsD server, in whole seconds."`
	// Targets of a rule in place of the target made from prefix and names. They are sent unchanged, except that
	// {threshold} becomes the rule's threshold.
	Targets  map[string]Targets `placeholder:"RULE=TARGET" help:"Targets of a rule in place of the usual target."`
	Username string             `help:"User for basic authentication."`
	// Password for basic authentication. Prefer the environment to a flag.
	Password string `help:"Password for basic authentication."`
	// Header fields of the polls, such as Authorization=Bearer x.
	Header  map[string]string `placeholder:"NAME=VALUE" help:"Header fields of the polls."`
	MaxBody int64             `name:"max_body" default:"33554432" help:"Longest response, in bytes."`
	// Maximum number of remembered series; further ones are dropped and counted.
	MaxSeries int `name:"max_series" default:"200000" help:"Maximum number of remembered series."`
}

// Tally holds the settings by which counts are combined before they are sent.
type Tally struct {
	Flush time.Duration `default:"100ms" help:"Interval at which sums are sent."`
	// Maximum number of keys between two flushes; further ones are dropped and counted.
	MaxKeys int `name:"max_keys" default:"65536" help:"Maximum number of keys between two flushes."`
	// Number of the heaviest keys whose clients are counted too, so that one client in a loop is distinguished from
	// many clients. 0: off. Each key takes up to about 1.2 KB per core, and twice that while a second begins.
	TrackClients int `name:"track_clients" default:"1024" help:"Number of keys whose clients are counted; 0: off."`
}

// Detect holds the settings by which hot keys are found.
type Detect struct {
	// Interval at which keys are judged. A key that crosses its threshold is published at once.
	Tick time.Duration `default:"100ms" help:"Interval at which keys are judged."`
	// Time for which a publication keeps its keys hot. Keys that are not renewed in it stay for redis.hot_ttl_no_input.
	HotTTL   time.Duration `name:"hot_ttl" default:"5s" help:"Time for which a publication keeps its keys hot."`
	Lateness time.Duration `default:"10s" help:"Maximum age of a count that is still added to its window."`
	// Maximum number of counters of each rule, of about 200 bytes: a key takes one for each second of the window in
	// which it is seen. If they do not suffice, the lightest keys are dropped, and counts have a known error.
	Counters int `default:"131072" help:"Maximum number of counters of each rule, of about 200 bytes."`
	// Highest expected request rate of one rule, per second, unless the rule has a max_rate. 0: not stated. If it is
	// stated, a number of counters that could miss a hot key is rejected.
	MaxRate float64 `name:"max_rate" default:"0" help:"Highest expected request rate of one rule, per second."`
}

// Gate holds the settings by which requests are decided.
type Gate struct {
	Budget time.Duration `default:"20ms" help:"Longest wait for Redis in one decision."`
	// Maximum number of clients and keys that the in-process limits hold in memory.
	MaxSubjects int `name:"max_subjects" default:"1000000" help:"Maximum number of clients and keys in memory."`
	// Name of this limiter in reports. Default: host name, process and start.
	Instance string `help:"Name of this limiter in reports."`
}

// State holds the directory of data that survives a restart.
type State struct {
	// Directory of the state that survives a restart: the history, the overrides of hotparam serve and its secrets of
	// visitor passes, the latency of upstreams, a limiter's copy of shared overrides, and the last good copy of rules
	// from a central store. Each process needs its own directory. Empty for a limiter: no copy.
	Dir string `group:"state" default:"hotparam-state" placeholder:"DIR" help:"Directory of the state that survives a restart."`
}

// History bounds the past data that a program keeps in state.dir.
type History struct {
	// Time for which minutes, hot spans and events are kept. 0: no history.
	Keep time.Duration `group:"state" default:"168h" help:"Time for which the history is kept; 0: no history."`
	// Maximum bytes of the files of the history. At the maximum the oldest hours are deleted.
	MaxBytes int64 `name:"max_bytes" default:"1073741824" help:"Maximum bytes of the files of the history."`
	Keys     int   `default:"100" help:"Number of the heaviest keys that are kept of each minute, of each cost."`
}

// Access holds access logs as sources of counts.
type Access struct {
	File []string `group:"counts" placeholder:"FILE" help:"Access log to follow; - is standard input."`
	// Address that receives access logs by syslog, UDP and TCP, in the form of nginx's access_log syslog:. Any sender
	// can forge counts: listen where only your servers reach it, or set syslog_allow.
	Syslog string `group:"counts" placeholder:"HOST:PORT" help:"Address that receives access logs by syslog, UDP and TCP, in the form of nginx's access_log syslog:."`
	// Networks whose messages are read; default: all.
	SyslogAllow []string `name:"syslog_allow" placeholder:"NETWORK" help:"Networks whose messages of syslog are read; default: all."`

	Format string `enum:"auto,${log_formats}" default:"auto" help:"Form of the lines: ${enum}."`
	// Form of the lines in place of format: nginx's log_format, or json: and the names of fields, or w3c: and the names
	// of columns.
	LogFormat string `name:"log_format" placeholder:"FORM" help:"Form of the lines in place of format: nginx's log_format, json:time=ts,client=ip,target=url or w3c:client=X-Forwarded-For."`
}

// StatsDAdmin locates the configuration of a StatsD server.
type StatsDAdmin struct {
	// Management interface of a Node.js StatsD server, such as 127.0.0.1:8126.
	Admin  string `placeholder:"HOST:PORT" help:"Management interface of a Node.js StatsD server."`
	Config string `placeholder:"FILE" help:"The config.js of a Node.js StatsD server."`
}

// Carbon locates the configuration of Graphite's carbon.
type Carbon struct {
	// Directory of carbon.conf, storage-schemas.conf and storage-aggregation.conf.
	Conf string `placeholder:"DIR" help:"Directory of carbon.conf and the storage-*.conf files."`
}

// Targets are Graphite targets. As text they are separated by ",". The arguments of Graphite's functions are too, so
// only commas outside of brackets separate targets.
type Targets []string

func (t *Targets) UnmarshalText(text []byte) error {
	*t = nil
	depth, start := 0, 0
	for i, c := range text {
		switch c {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth--
		case ',':
			if depth == 0 {
				*t = append(*t, strings.TrimSpace(string(text[start:i])))
				start = i + 1
			}
		}
	}
	*t = append(*t, strings.TrimSpace(string(text[start:])))
	return nil
}

// Notifications are the receivers of events.
type Notifications struct {
	// Webhooks for events: keys that become hot or cold, loops, overrides, a failing store, adaptive limits at their
	// minimum. It is a list of {name, url, format, events, secret, …}, see admin.md; as a flag or in the environment,
	// one line of YAML.
	Webhooks Webhooks `group:"operate" placeholder:"YAML" help:"Webhooks that receive events: a list of {name, url, …}."`
}
