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
	Level  string `group:"operate" enum:"debug,info,warn,error" default:"info" help:"Least level that is logged: ${enum}."`
	Format string `group:"operate" enum:"text,json" default:"text" help:"Form of the log lines: ${enum}."`
}

// Privacy holds the key of the hashes of redacted values.
type Privacy struct {
	// Key of the hashes of redacted values (redact: hash), at least 16 bytes. All programs of a namespace need the
	// same; with another one, old and new hashes of a value are two keys. Better set by the environment than as a flag.
	Secret string `help:"Key of the hashes of redacted values."`
	// File that holds it, without white space around it.
	SecretFile string `name:"secret_file" placeholder:"FILE" help:"File that holds the key of these hashes."`
}

// Stop bounds the graceful stop.
type Stop struct {
	// How long the program may take to deliver what it holds after SIGTERM.
	Timeout time.Duration `default:"10s" help:"Longest graceful stop."`
	// How long listeners continue to accept after SIGTERM while /readyz reports not ready, so that balancers send
	// requests elsewhere before the port closes. It comes before the timeout; a second signal ends the program at once.
	Delay time.Duration `default:"0s" help:"How long listeners go on accepting after SIGTERM, not ready."`
}

// Redis is the server of the hot set, the overrides and the shared limits.
type Redis struct {
	Addr     []string `group:"state" placeholder:"HOST:PORT" help:"Redis server, or several nodes of one Redis Cluster."`
	Username string   `help:"User for AUTH."`
	// Password for AUTH. Better set by the environment than as a flag.
	Password string `help:"Password for AUTH."`
	// File that holds the password. It is read for every connection, so that a new password needs no restart; while it
	// cannot be used, the password from before is sent.
	PasswordFile string `group:"state" name:"password_file" placeholder:"FILE" help:"File that holds the password for AUTH."`
	DB           int    `default:"0" help:"Database number; a cluster has only 0."`
	// Connect by TLS; rediss:// and each of the tls_ settings do so too. Their files are read for every connection.
	TLS   bool     `help:"Connect by TLS; rediss:// and each of the tls_ settings do so too."`
	Files TLSFiles `embed:"" prefix:"tls_" set:"of=Redis"`
	// Name by which Sentinels know the master. With it addr lists the Sentinels (usual port 26379); user, password and
	// database are those of the master, TLS is for both.
	SentinelMaster   string `name:"sentinel_master" placeholder:"NAME" help:"Name of the master; addr lists its Sentinels then."`
	SentinelUsername string `name:"sentinel_username" help:"User for AUTH at the Sentinels."`
	// Password for AUTH at the Sentinels. Better set by the environment than as a flag.
	SentinelPassword string `name:"sentinel_password" help:"Password for AUTH at the Sentinels."`
	// File that holds the password for AUTH at the Sentinels; read as password_file.
	SentinelPasswordFile string `name:"sentinel_password_file" placeholder:"FILE" help:"File that holds the Sentinels' password."`
	// Longest call outside of decisions, with dialling and redirects.
	Timeout time.Duration `default:"500ms" help:"Longest call outside of decisions."`
	// How long hot keys stay hot when their aggregator is silent or gets no counts; at most 24h. 0: not at all.
	// Limiters and aggregators both need it.
	HotTTLNoInput time.Duration `name:"hot_ttl_no_input" default:"10m" help:"How long keys stay hot without news of them."`
}

// TLSFiles are the certificates of connections to a server.
type TLSFiles struct {
	// Authorities (PEM) that sign the server's certificate; default: those that the system trusts.
	CA         string `name:"ca" placeholder:"FILE" help:"Certificates (PEM) that ${of} is trusted by; default: the system's."`
	Cert       string `name:"cert" placeholder:"FILE" help:"Certificate (PEM) to show to ${of}."`
	Key        string `name:"key" placeholder:"FILE" help:"Key (PEM) of the certificate for ${of}."`
	ServerName string `name:"server_name" help:"Name in the certificate of ${of} if not the dialled host."`
}

// Etcd is the store of rules with --rules etcd:KEY.
type Etcd struct {
	Addr     []string `placeholder:"HOST:PORT" help:"Members of the etcd cluster that has the rules."`
	Username string   `help:"User of etcd."`
	// Password of the user of etcd. Better set by the environment than as a flag.
	Password string        `help:"Password of the user of etcd."`
	TLS      bool          `help:"Connect to etcd by TLS; each of the tls_ settings does so too."`
	Files    TLSFiles      `embed:"" prefix:"tls_" set:"of=etcd"`
	Timeout  time.Duration `default:"2s" help:"Longest call to etcd."`
}

// Kafka is the topic that carries counts.
type Kafka struct {
	Brokers []string `group:"counts" placeholder:"HOST:PORT" help:"Kafka brokers to begin with."`
	Topic   string   `default:"hotparam-counts" help:"Topic of the counts."`
	// Partitions that the topic should have; another number is logged. 0: as many as it has, and 8 if it has to be
	// created.
	Partitions int32    `default:"0" help:"Partitions that the topic should have; 0: as it is."`
	Create     bool     `default:"true" negatable:"" help:"Create the topic if it is missing."`
	TLS        bool     `help:"Connect by TLS."`
	Files      TLSFiles `embed:"" prefix:"tls_" set:"of=a broker"`
	// How to log in if there is a user: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. PLAIN reveals the password to a reader
	// of the connection.
	SASL     string `name:"sasl" enum:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" default:"PLAIN" help:"How to log in: ${enum}."`
	Username string `help:"User for SASL."`
	// Password for SASL. Better set by the environment than as a flag.
	Password string `help:"Password for SASL."`
	// File that holds the password for SASL. It is read for new connections, so that a new password needs no restart;
	// while it cannot be used, the password from before is sent. Change the file first, then the brokers: logins in
	// between are refused and repeated, and producers keep counts for 10 s. By PLAIN an aggregator joins its group as a
	// new member then, which takes up to session_timeout; by SCRAM it stays a member.
	PasswordFile string `name:"password_file" placeholder:"FILE" help:"File that holds the password for SASL."`
}

// KafkaGroup holds the settings by which aggregators share the partitions.
type KafkaGroup struct {
	// Consumer group of the aggregators. Two namespaces need two groups: in one, each would lose the partitions of the
	// other. Default: hotparam-aggregator-NAMESPACE.
	Group string `help:"Consumer group of the aggregators of a namespace."`
	// How far back a partition is read when it is taken over; at least the longest window of the rules and 5 s.
	Backlog time.Duration `default:"10s" help:"How far back a partition is read when it is taken over."`
	// How far behind its end a partition may be read, at least two backlogs; further behind, reading jumps to the
	// backlog.
	MaxLag time.Duration `name:"max_lag" default:"30s" help:"Lag from which reading jumps to the backlog."`
	// Name of a static member of the group: a restart within the session timeout moves no partition, a stop hands them
	// over only after it. Each aggregator needs its own. Default: a dynamic member.
	Instance string `help:"Name of a static member of the group."`
	// Time without a heartbeat after which the brokers remove an aggregator from the group.
	SessionTimeout time.Duration `name:"session_timeout" default:"10s" help:"Silence after which a member has left."`
}

// Name returns the group of the aggregators of a namespace.
func (g KafkaGroup) Name(namespace string) string {
	return cmp.Or(g.Group, "hotparam-aggregator-"+namespace)
}

// StatsDOut holds the StatsD servers to which counts are sent.
type StatsDOut struct {
	// StatsD servers that counts are sent to, or unix:/path. Several servers divide the keys; give all programs the
	// same list.
	Addr []string `group:"counts" placeholder:"HOST:PORT" help:"StatsD servers that share the keys."`
	// StatsD servers that get every count as well: where the standby of each aggregator listens.
	Standby []string `placeholder:"HOST:PORT" help:"StatsD servers that get every count as well."`
	MTU     int      `default:"1432" help:"Bytes of one datagram."`
	// Also send the clients of a key, as StatsD sets; not for servers without sets.
	Sets bool `default:"true" negatable:"" help:"Also send the clients of a key, as StatsD sets."`
}

// StatsDIn is the StatsD listener.
type StatsDIn struct {
	// Addresses to take StatsD lines on: host:port or udp://host:port, tcp://host:port, unix:/path (datagrams),
	// unixstream:/path.
	Listen []string `group:"counts" placeholder:"HOST:PORT" help:"Addresses to take StatsD lines on; also tcp://, unix:, unixstream:."`
	// UDP sockets that share an address, each read by a goroutine of its own. Linux only.
	Readers int `default:"1" help:"UDP sockets that share an address. Linux only."`
	// Receive buffer to ask the kernel for, in bytes, for each socket.
	ReadBuffer int `name:"read_buffer" default:"16777216" help:"Receive buffer of each socket, in bytes."`
	// Most connections at once to tcp:// and unixstream: addresses; further ones are closed.
	MaxConnections int           `name:"max_connections" default:"1024" help:"Most connections at once."`
	IdleTimeout    time.Duration `name:"idle_timeout" default:"5m" help:"Silence after which a connection is closed."`
	// Networks or addresses whose lines are read; lines of others are counted and not read. Default: all. A sender of
	// lines can make a key hot.
	Allow []string `placeholder:"NETWORK" help:"Networks whose lines are read; default: all."`
	// Most requests that one line may count; a line with more is malformed. Choose the most that one sender can count
	// of one key in a flush: it bounds what a forged line can do.
	MaxCount int64 `name:"max_count" default:"1099511627776" help:"Most requests that one line may count."`
	// StatsD server that gets all lines of other senders, unchanged, by UDP or unix:/path.
	Forward    string `placeholder:"HOST:PORT" help:"StatsD server for lines that are not ours."`
	ForwardAll bool   `name:"forward_all" help:"Forward hotparam's lines too, for their history in Graphite."`
}

// Graphite is the render API that is asked for counts.
type Graphite struct {
	// Graphite (graphite-web 1.1) to ask for counts, such as http://127.0.0.1:8080.
	URL      string `group:"counts" name:"url" placeholder:"URL" help:"Graphite to ask for counts."`
	Schedule string `default:"@every 1s" help:"Schedule (cron, with seconds) on which it is asked."`
	// How long after the full second to ask at the earliest; the StatsD server flushes on the second.
	Settle time.Duration `default:"200ms" help:"How long after the full second to ask at the earliest."`
	// Longest wait for all responses of one poll; polls that would overlap are left out.
	Timeout time.Duration `default:"5s" help:"Longest wait for all answers of one poll."`
	// What the StatsD server writes before the names: stats_counts, or stats.counters of its newer namespace.
	Prefix string `default:"stats_counts" help:"What the StatsD server writes before our names."`
	// What it writes behind them: nothing, or count or rate of its newer namespace.
	Suffix string        `enum:",count,rate" default:"" help:"What it writes behind them: count, rate or nothing."`
	Flush  time.Duration `default:"1s" help:"Flush interval of the StatsD server, in whole seconds."`
	// Targets of a rule instead of the one made from prefix and names, sent as they are but {threshold}, which becomes
	// the rule's.
	Targets  map[string]Targets `placeholder:"RULE=TARGET" help:"Targets of a rule, instead of the usual one."`
	Username string             `help:"User for basic authentication."`
	// Password for it. Better set by the environment than as a flag.
	Password string `help:"Password for it."`
	// Headers to send, such as Authorization=Bearer x.
	Header  map[string]string `placeholder:"NAME=VALUE" help:"Headers to send."`
	MaxBody int64             `name:"max_body" default:"33554432" help:"Longest response, in bytes."`
	// Most series to remember; further ones are dropped and counted.
	MaxSeries int `name:"max_series" default:"200000" help:"Most series to remember."`
}

// Tally holds the settings by which counts are combined before they are sent.
type Tally struct {
	Flush time.Duration `default:"100ms" help:"How often sums are sent."`
	// Most keys between two flushes; further ones are dropped and counted.
	MaxKeys int `name:"max_keys" default:"65536" help:"Most keys between two flushes."`
	// For how many of the heaviest keys the clients are counted too, so that a client in a loop is distinguished from
	// many; 0 for none. Takes up to about 1.2 KB for each of them and core, and twice that while a second begins.
	TrackClients int `name:"track_clients" default:"1024" help:"Of how many keys the clients are counted; 0: none."`
}

// Detect holds the settings by which hot keys are found.
type Detect struct {
	// How often keys are judged; one that crosses its threshold is published at once.
	Tick time.Duration `default:"100ms" help:"How often keys are judged."`
	// How long a publication keeps its keys hot. Keys that are not renewed by then stay for redis.hot_ttl_no_input.
	HotTTL   time.Duration `name:"hot_ttl" default:"5s" help:"How long a publication keeps its keys hot."`
	Lateness time.Duration `default:"10s" help:"Oldest count that still has a place in its window."`
	// Most counters for each rule, of about 200 bytes: a key takes one for each second of the window in which it is
	// seen. Beyond it the lightest keys are given up, and counts have a known error.
	Counters int `default:"131072" help:"Most counters for each rule, of about 200 bytes."`
	// Most requests per second that one rule is expected to get, unless the rule has a max_rate of its own; 0: not
	// stated. With it, counters that could not find every hot key are rejected.
	MaxRate float64 `name:"max_rate" default:"0" help:"Most requests per second that one rule is expected to get."`
}

// Gate holds the settings by which requests are decided.
type Gate struct {
	Budget time.Duration `default:"20ms" help:"Longest wait for Redis in one decision."`
	// Most clients and keys held in memory by the in-process limits.
	MaxSubjects int `name:"max_subjects" default:"1000000" help:"Most clients and keys held in memory."`
	// Name of this limiter in reports. Default: host name, process and start.
	Instance string `help:"Name of this limiter in reports."`
}

// State holds the directory of data that survives a restart.
type State struct {
	// Directory of what survives a restart: the history, the overrides of hotparam serve, a limiter's copy of those
	// that it shares, and the last good copy of rules from a central store. Each process needs its own; "" for a
	// limiter: no copy.
	Dir string `group:"state" default:"hotparam-state" placeholder:"DIR" help:"Directory of the state that survives a restart."`
}

// History bounds the past data that a program keeps in state.dir.
type History struct {
	// How long minutes, hot spans and events are kept; 0: none are.
	Keep time.Duration `group:"state" default:"168h" help:"How long minutes, hot spans and events are kept; 0: none."`
	// Most bytes of the files in history. When they are full, the oldest hours are deleted.
	MaxBytes int64 `name:"max_bytes" default:"1073741824" help:"Most bytes of its files."`
	Keys     int   `default:"100" help:"How many keys of a minute are kept, the heaviest."`
}

// Access holds access logs as sources of counts.
type Access struct {
	File []string `group:"counts" placeholder:"FILE" help:"Access log to follow; - is standard input."`
	// Address that receives access logs by syslog, UDP and TCP, as access_log syslog: of nginx sends them. Senders
	// choose what is counted: listen where only they reach it, or set syslog_allow.
	Syslog string `group:"counts" placeholder:"HOST:PORT" help:"Address that receives access logs by syslog, UDP and TCP, as access_log syslog: of nginx sends them."`
	// Networks whose messages are read; default: all.
	SyslogAllow []string `name:"syslog_allow" placeholder:"NETWORK" help:"Networks whose messages of syslog are read; default: all."`

	Format string `enum:"auto,${log_formats}" default:"auto" help:"Form of the lines: ${enum}."`
	// Form of the lines in place of format, as log_format of nginx has it, or json: and the names of fields.
	LogFormat string `name:"log_format" placeholder:"FORM" help:"Form of the lines in place of format, as log_format of nginx has it, or json:time=ts,client=ip,target=url."`
}

// StatsDAdmin locates the configuration of a StatsD server.
type StatsDAdmin struct {
	// Management interface of a Node.js StatsD server, such as 127.0.0.1:8126.
	Admin  string `placeholder:"HOST:PORT" help:"Management interface of a Node.js StatsD server."`
	Config string `placeholder:"FILE" help:"Its config.js."`
}

// Carbon locates the configuration of Graphite's carbon.
type Carbon struct {
	// Directory of carbon.conf, storage-schemas.conf and storage-aggregation.conf.
	Conf string `placeholder:"DIR" help:"Directory of carbon.conf and its like."`
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
	// Webhooks that are notified when keys become hot or cold, and of loops, overrides, a failing store and adaptive
	// limits at their minimum: a list of {name, url, format, events, secret, …}, see admin.md. As a flag or in the
	// environment it is one line of YAML.
	Webhooks Webhooks `group:"operate" placeholder:"YAML" help:"Webhooks that receive events: a list of {name, url, …}."`
}
