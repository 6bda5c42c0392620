package doctor

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/operator/udpstat"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// defaultFlush is the default of the Node.js statsd.
const defaultFlush = 10 * time.Second

func StatsD(in statsd.Inspection, want Expected) []Finding {
	l := &list{where: "statsd " + in.Addr}
	switch {
	case in.Addr == "":
	case in.AddrErr != "":
		l.addFailure(Finding{What: "counts cannot be sent: " + in.AddrErr,
			Why: "UDP has no answer: senders lose every count without an error",
			Fix: "start the server, or fix statsd.addr"})
	default:
		l.addOK("no sign that %s does not take datagrams (UDP reports no more)", in.Addr)
	}
	l.statsdAdmin(in)
	if in.FileErr != "" {
		l.addFailure(Finding{What: "the configuration of the server cannot be read: " + in.FileErr, Where: in.File,
			Why: "an unknown value cannot be judged", Fix: "fix --statsd.config"})
	}
	if !in.Known {
		return l.findings
	}
	if in.AdminErr != "" || in.Admin == "" {
		l.where = in.File
	}
	l.statsdFlush(in, want)
	l.statsdIdle(in)
	l.statsdNames(in, want)
	for _, name := range in.Unread {
		l.addUnknown(name, "its value is not written out in "+in.File)
	}
	return l.findings
}

func (l *list) statsdAdmin(in statsd.Inspection) {
	switch {
	case in.Admin == "":
	case in.AdminErr != "":
		l.addWarning(Finding{What: "the management interface does not answer: " + in.AdminErr, Where: in.Admin,
			Why: "how the server is set up cannot be seen; other servers than the Node.js one have no such interface",
			Fix: "mgmt_port: 8126   // in config.js, or give the file: --statsd.config config.js"})
	case in.Health != "up":
		l.addWarning(Finding{What: "the server reports its health as " + strconv.Quote(in.Health), Where: in.Admin,
			Why: "proxies send it nothing", Fix: "echo health up | nc -q1 " + in.Admin})
	default:
		l.addOK("the server reports its health as up (%s)", in.Admin)
	}
	if n, err := strconv.ParseInt(in.BadLines, 10, 64); err == nil && n > 0 {
		l.addWarning(Finding{What: fmt.Sprintf("the server could not read %d lines", n), Where: in.Admin,
			Why: "their counts are lost",
			Fix: "dumpMessages: true   // in config.js, for a moment: the log shows the lines"})
	}
}

func (l *list) statsdFlush(in statsd.Inspection, want Expected) {
	flush := FlushOf(in)
	if flush <= want.Window {
		l.addOK("flushInterval %v is within the shortest window of %v", flush, want.Window)
		return
	}
	level, why := Warn, "the history in Graphite does not show keys that were hot for less; detection happens elsewhere"
	if want.FromGraphite {
		level, why = Fail,
			"detection reads the flushes of the server: a key is found long after it became hot, and a short burst never"
	}
	l.add(level, Finding{Why: why,
		What: fmt.Sprintf("flushInterval is %v, longer than the shortest window of %v", flush, want.Window),
		Fix:  fmt.Sprintf("flushInterval: %d   // in config.js", min(want.Window, time.Second).Milliseconds())})
}

// FlushOf returns the interval at which a server flushes its counters, or 0 if its settings are not known.
func FlushOf(in statsd.Inspection) time.Duration {
	if !in.Known {
		return 0
	}
	ms, err := strconv.ParseFloat(in.Settings["flushInterval"], 64)
	if err != nil || ms <= 0 {
		return defaultFlush
	}
	return time.Duration(ms * float64(time.Millisecond))
}

func (l *list) statsdIdle(in statsd.Inspection) {
	if in.Settings["deleteIdleStats"] == "true" || in.Settings["deleteCounters"] == "true" {
		l.addOK("counters that are idle are forgotten")
		return
	}
	l.addFailure(Finding{What: "deleteIdleStats and deleteCounters are off",
		Why: "the server keeps every key that was ever counted and sends a 0 for it at every flush, for ever: memory and carbon fill up with yesterday's keys",
		Fix: "deleteIdleStats: true   // in config.js"})
}

func (l *list) statsdNames(in statsd.Inspection, want Expected) {
	sanitizes := in.Settings["keyNameSanitize"] != "false"
	switch {
	case want.Plain && sanitizes:
		l.addFailure(Finding{What: "the server rewrites names (keyNameSanitize), and names.style is plain",
			Why: "it drops % and & from names: different keys become one, and none can be read back",
			Fix: "names: {style: hp1}   # in hotparam's file, for all programs; or keyNameSanitize: false in config.js"})
	case sanitizes:
		l.addOK("names of style hp1 pass keyNameSanitize unchanged")
	default:
		l.addOK("the server leaves names as they are")
	}
	l.statsdNamespace(in, want)
}

// statsdNamespace compares the names that the server writes with the names that detection reads. Without Graphite
// detection reads no names.
func (l *list) statsdNamespace(in statsd.Inspection, want Expected) {
	writes, settings := "stats_counts", "graphite: {prefix: stats_counts, suffix: \"\"}"
	if in.Settings["graphite > legacyNamespace"] == "false" {
		writes, settings = "stats.counters", "graphite: {prefix: stats.counters, suffix: count}"
	}
	if !want.FromGraphite || strings.HasPrefix(want.Prefix, writes) || in.Settings["graphite > globalPrefix"] != "" ||
		in.Settings["graphite > prefixCounter"] != "" {
		l.addOK("counters are written as %s.…", writes)
		return
	}
	l.addFailure(Finding{What: fmt.Sprintf("counters are written as %s.… (legacyNamespace), and asked for as %s.…",
		writes, want.Prefix),
		Why: "the question finds nothing, or rates per second in the place of counts",
		Fix: settings + "   # in hotparam's file"})
}

func UDP(in udpstat.Inspection) []Finding {
	l := &list{where: "this machine's kernel"}
	fix := fmt.Sprintf("sysctl -w net.core.rmem_max=%d   # and in /etc/sysctl.d/60-hotparam.conf: "+
		"net.core.rmem_max = %[1]d", in.Asked)
	switch {
	case in.Granted < 0:
		l.addUnknown("the UDP receive buffer", in.Err)
	case in.Granted < in.Asked:
		l.addWarning(Finding{What: fmt.Sprintf("a StatsD listener asks for a receive buffer of %s and is granted %s",
			formatBytes(in.Asked), formatBytes(in.Granted)),
			Where: fmt.Sprintf("net.core.rmem_max = %d", in.MaxBuffer),
			Why:   "while the process waits for a processor the buffer fills, and the kernel throws counts away without a word",
			Fix:   fix})
	default:
		l.addOK("UDP sockets are granted the receive buffer of %s that they ask for", formatBytes(in.Granted))
	}
	lost, before := in.After.RcvbufErrors-in.Before.RcvbufErrors, in.After.RcvbufErrors
	switch {
	case in.Granted >= 0 && in.Err != "":
		l.addUnknown("the count of lost datagrams", in.Err)
	case lost > 0:
		l.addFailure(Finding{
			What: fmt.Sprintf("%d UDP datagrams were thrown away in the last %v because a receive buffer "+
				"was full", lost, in.Between),
			Where: "/proc/net/snmp, Udp RcvbufErrors",
			Why:   "counts are being lost right now: keys look colder than they are",
			Fix:   fix + "; then give the listener more processor time"})
	case before > 0:
		l.addWarning(Finding{
			What: fmt.Sprintf("%d UDP datagrams were thrown away since the machine started, none in the "+
				"last %v", before, in.Between),
			Where: "/proc/net/snmp, Udp RcvbufErrors",
			Why:   "bursts do not fit into the receive buffer of some program on this machine",
			Fix:   fix})
	case in.Err == "":
		l.addOK("no UDP datagram was thrown away since the machine started")
	}
	if grown := in.After.InErrors - in.Before.InErrors - lost; grown > 0 {
		l.addWarning(Finding{What: fmt.Sprintf("%d UDP datagrams came with errors in the last %v", grown, in.Between),
			Where: "/proc/net/snmp, Udp InErrors", Why: "their counts are lost",
			Fix: "nstat -az 'Udp*'   # tells which errors; then look at the network"})
	}
	return l.findings
}

type Senders struct {
	// Listen are the addresses on which StatsD lines are received, and Allow are the networks whose lines are read.
	Listen, Allow []string
	// NoClientsSetting is the setting that drops client data, or empty if senders name the clients. Graphite is true if
	// all counts come from Graphite.
	NoClientsSetting string
	Graphite         bool
}

// CheckSenders judges which senders can make a key hot. path is the file of the rules.
func CheckSenders(s Senders, set *rules.Set, path string) []Finding {
	l := &list{where: "statsd.listen"}
	for _, addr := range s.Listen {
		switch {
		case !isReachable(addr):
			l.addOK("%s takes lines of this machine only", addr)
		case len(s.Allow) == 0:
			l.addWarning(Finding{What: addr + " takes lines from every address",
				Why: "any sender that reaches it can make a key hot, and so have it limited, or hide one that is; over UDP with any source address",
				Fix: "statsd: {allow: [10.0.0.0/8]}   # the networks of your senders; or listen on 127.0.0.1 or unix:/path"})
		default:
			l.addOK("%s takes lines from %s only", addr, strings.Join(s.Allow, ", "))
		}
	}
	l.where = path
	for _, r := range set.Rules {
		if r.Hot.MinClients <= 1 {
			continue
		}
		switch {
		case s.NoClientsSetting != "":
			l.addFailure(Finding{
				What: fmt.Sprintf("rule %s wants min_clients %d, and with %s senders do not name clients",
					r.Name, r.Hot.MinClients, s.NoClientsSetting),
				Why: "requests without a client count as one client: none of its keys becomes hot",
				Fix: "take " + s.NoClientsSetting + " away, or min_clients"})
		case s.Graphite:
			l.addWarning(Finding{
				What: fmt.Sprintf("rule %s wants min_clients %d, and Graphite does not know clients", r.Name,
					r.Hot.MinClients),
				Why: "min_clients holds nothing back: a client in a loop makes a key hot",
				Fix: "take min_clients away, or counts by StatsD or Kafka"})
		}
	}
	return l.findings
}

// isReachable reports whether other machines can reach an address to listen on.
func isReachable(addr string) bool {
	if strings.HasPrefix(addr, "unix") {
		return false
	}
	if i := strings.Index(addr, "://"); i >= 0 {
		addr = addr[i+3:]
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return true
	}
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback())
}
