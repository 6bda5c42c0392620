package doctor

import (
	"fmt"
	"net"
	"strings"

	"github.com/hotparam/pipeline/internal/rules"
)

// Senders is where counts come from, and whether they name the clients.
type Senders struct {
	// Listen are the addresses that StatsD lines are taken on, Allow the networks
	// whose lines are read.
	Listen, Allow []string
	// NoClientsSetting is the setting that drops client data; empty: senders name
	// the clients. Graphite says that all counts come from there.
	NoClientsSetting string
	Graphite         bool
}

// CheckSenders judges who can make a key hot. Path is the file of the rules.
func CheckSenders(s Senders, set *rules.Set, path string) []Finding {
	l := &list{where: "statsd.listen"}
	for _, addr := range s.Listen {
		switch {
		case !open(addr):
			l.ok("%s takes lines of this machine only", addr)
		case len(s.Allow) == 0:
			l.add(Warn, Finding{What: addr + " takes lines from every address",
				Why: "any sender that reaches it can make a key hot, and so have it limited, or hide one that is; over UDP with any source address",
				Fix: "statsd: {allow: [10.0.0.0/8]}   # the networks of your senders; or listen on 127.0.0.1 or unix:/path"})
		default:
			l.ok("%s takes lines from %s only", addr, strings.Join(s.Allow, ", "))
		}
	}
	l.where = path
	for _, r := range set.Rules {
		if r.Hot.MinClients <= 1 {
			continue
		}
		switch {
		case s.NoClientsSetting != "":
			l.add(Fail,
				Finding{What: fmt.Sprintf("rule %s wants min_clients %d, and with %s senders do not name clients",
					r.Name, r.Hot.MinClients, s.NoClientsSetting),
					Why: "requests without a client count as those of one client: none of its keys becomes hot",
					Fix: "take " + s.NoClientsSetting + " away, or min_clients"})
		case s.Graphite:
			l.add(Warn,
				Finding{What: fmt.Sprintf("rule %s wants min_clients %d, and Graphite does not know clients", r.Name,
					r.Hot.MinClients),
					Why: "min_clients holds nothing back: a client in a loop makes a key hot",
					Fix: "take min_clients away, or counts by StatsD or Kafka"})
		}
	}
	return l.findings
}

// open reports whether others than this machine can reach an address to listen
// on.
func open(addr string) bool {
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
