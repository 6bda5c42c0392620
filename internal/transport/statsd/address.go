package statsd

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type address struct {
	network string // "udp" or "unixgram"
	addr    string // "host:port" or a path
	isName  bool   // the host has to be resolved
}

// parseAddress parses the address of a server: "host:port", "udp://host:port", "unix:/path" (datagrams).
func parseAddress(s string) (address, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if path == "" {
			return address{}, fmt.Errorf("statsd: address %q has no path", s)
		}
		return address{network: "unixgram", addr: path}, nil
	}
	hostPort := strings.TrimPrefix(s, "udp://")
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || port == "" || strings.Contains(port, "/") {
		return address{}, fmt.Errorf("statsd: address %q is neither host:port nor unix:/path", s)
	}
	_, err = netip.ParseAddr(host)
	return address{network: "udp", addr: hostPort, isName: err != nil && host != ""}, nil
}

// transports holds the forms of an address to listen on besides "host:port".
var transports = []struct{ prefix, network string }{
	{"udp://", "udp"},
	{"tcp://", "tcp"},
	{"unixgram:", "unixgram"},
	{"unixstream:", "unix"},
	{"unix:", "unixgram"},
}

// parseListen parses an address to listen on: "host:port" and "udp://host:port" (datagrams), "tcp://host:port",
// "unix:/path" (datagrams) and "unixstream:/path".
func parseListen(s string) (address, error) {
	for _, t := range transports {
		rest, ok := strings.CutPrefix(s, t.prefix)
		if !ok {
			continue
		}
		if !strings.HasPrefix(t.network, "unix") {
			a, err := parseAddress(rest)
			if err != nil || a.network != "udp" {
				return address{}, fmt.Errorf("statsd: address %q is not %shost:port", s, t.prefix)
			}
			a.network = t.network
			return a, nil
		}
		if path := strings.TrimPrefix(rest, "//"); path != "" {
			return address{network: t.network, addr: path}, nil
		}
		return address{}, fmt.Errorf("statsd: address %q has no path", s)
	}
	a, err := parseAddress(s)
	if err != nil {
		return address{},
			fmt.Errorf(
				"statsd: address %q must be host:port, udp://host:port, tcp://host:port, unix:/path or unixstream:/path", s)
	}
	return a, nil
}

// reachesSocket reports whether datagrams to a arrive at the socket at, as far as the addresses show.
func (a address) reachesSocket(at net.Addr) bool {
	if a.network == "unixgram" {
		return at.Network() == a.network && at.String() == a.addr
	}
	udp, ok := at.(*net.UDPAddr)
	host, port, err := net.SplitHostPort(a.addr)
	if !ok || err != nil || port != strconv.Itoa(udp.Port) {
		return false
	}
	ip := net.ParseIP(host)
	local := host == "localhost" || host == "" || ip.IsLoopback() || ip.IsUnspecified()
	return udp.IP.Equal(ip) || local && (udp.IP.IsUnspecified() || udp.IP.IsLoopback())
}

// ParseAllow parses networks ("10.0.0.0/8", "fd00::/8") and single addresses.
func ParseAllow(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
			continue
		}
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return nil, fmt.Errorf("statsd: %q is neither a network such as 10.0.0.0/8 nor an address", s)
		}
		out = append(out, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
	}
	return out, nil
}

// senders selects the senders whose datagrams and connections are read. It is safe for concurrent use.
type senders struct {
	allow    []netip.Prefix // empty if all senders are allowed
	rejected atomic.Uint64
	bad      *rejectLog
}

// allowsAll reports whether every sender is allowed, so that addresses do not have to be read.
func (s *senders) allowsAll() bool { return len(s.allow) == 0 }

// isAllowed reports whether an address may send, and counts a rejected one. A sender without an address uses a unix
// socket, which is guarded by its file.
func (s *senders) isAllowed(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if s.allowsAll() || !a.IsValid() ||
		slices.ContainsFunc(s.allow, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return true
	}
	s.rejected.Add(1)
	s.bad.logRejectedSender(a.String())
	return false
}

// peerAddr returns the address of the other end, or the zero Addr for a unix socket.
func peerAddr(conn net.Conn) netip.Addr {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// quiet is the time for which further mistakes of strangers are not logged.
const quiet = 10 * time.Second

// rejectLog logs an example of a malformed line every ten seconds. The program's logger bounds lines too, but a line
// costs more than reading a name, and any sender can make a reader write one. A rejectLog is safe for concurrent use.
type rejectLog struct {
	log *slog.Logger

	mu         sync.Mutex // guards the fields below
	next       time.Time  // nothing is logged before
	suppressed uint64     // malformed lines since the last logged one

	nextAccept time.Time // the same for connections
	nextSender time.Time // and for senders that are not in statsd.allow
}

// logMalformed logs a malformed line, or counts it for the next message. from is the zero Addr for a unix socket.
func (l *rejectLog) logMalformed(line []byte, why fault, cause error, from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.next) {
		l.suppressed++
		return
	}
	sender, reason := "unknown (a unix socket)", reasons[why].says
	if from.IsValid() {
		sender = from.Unmap().String()
	}
	for cause != nil && errors.Unwrap(cause) != nil { // the outer errors repeat the line
		cause = errors.Unwrap(cause)
	}
	if cause != nil {
		reason += ": " + quoteForLog([]byte(cause.Error()))
	}
	l.log.Warn("statsd: malformed line; further ones are only counted for "+quiet.String(),
		"reason", reason, "sender", sender, "line", quoteForLog(line),
		"others_since_the_last_one_shown", l.suppressed)
	l.next, l.suppressed = now.Add(quiet), 0
}

// logUnserved logs why a connection is not served.
func (l *rejectLog) logUnserved(address string, err error) {
	l.warnRarely(&l.nextAccept, "statsd: a connection is not served; ", "address", address, "err", err)
}

func (l *rejectLog) logRejectedSender(address string) {
	l.warnRarely(&l.nextSender, "statsd: a sender that is not in statsd.allow; its lines are not read, ",
		"address", address)
}

func (l *rejectLog) warnRarely(next *time.Time, message string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.After(*next) {
		*next = now.Add(quiet)
		l.log.Warn(message+"further ones are only counted for "+quiet.String(), args...)
	}
}

// quoteForLog makes a stranger's bytes fit for a terminal and a log.
func quoteForLog(line []byte) string {
	const most = 120
	if len(line) > most {
		return strconv.QuoteToASCII(string(line[:most])) + "…"
	}
	return strconv.QuoteToASCII(string(line))
}
