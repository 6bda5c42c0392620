package statsd

import (
	"errors"
	"log/slog"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// quiet is how long nothing more is said about strangers' mistakes.
const quiet = 10 * time.Second

// rejectLog says what is wrong with what strangers send: one line in ten
// seconds with an example, however many are wrong and whichever reader met
// them. The program's logger bounds lines too, but a line costs more than reading a name, and any
// sender can make a reader write one. Safe for concurrent use.
type rejectLog struct {
	log *slog.Logger

	mu         sync.Mutex // guards the rest
	next       time.Time  // nothing is said before
	suppressed uint64     // malformed lines since the last one that was shown

	nextAccept time.Time // the same for connections
	nextSender time.Time // and for senders that statsd.allow does not have
}

// line shows a malformed line, or counts it for the next time. From is the
// zero Addr if the sender is unknown, as at a unix socket.
func (c *rejectLog) line(line []byte, why fault, cause error, from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.next) {
		c.suppressed++
		return
	}
	sender, reason := "unknown (a unix socket)", reasons[why].says
	if from.IsValid() {
		sender = from.Unmap().String()
	}
	for cause != nil && errors.Unwrap(cause) != nil { // the outer ones repeat the line
		cause = errors.Unwrap(cause)
	}
	if cause != nil {
		reason += ": " + sanitise([]byte(cause.Error()))
	}
	c.log.Warn("statsd: malformed line; further ones are only counted for "+quiet.String(),
		"reason", reason, "sender", sender, "line", sanitise(line),
		"others_since_the_last_one_shown", c.suppressed)
	c.next, c.suppressed = now.Add(quiet), 0
}

// accept logs why a connection is not served.
func (c *rejectLog) accept(address string, err error) {
	c.warn(&c.nextAccept, "statsd: a connection is not served; ", "address", address, "err", err)
}

// sender logs a sender whose lines are not read.
func (c *rejectLog) sender(address string) {
	c.warn(&c.nextSender, "statsd: a sender that is not in statsd.allow; what it sends is not read, ", "address", address)
}

func (c *rejectLog) warn(next *time.Time, message string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(*next) {
		*next = now.Add(quiet)
		c.log.Warn(message+"further ones are only counted for "+quiet.String(), args...)
	}
}

// sanitise makes bytes of a stranger fit for a terminal and a log.
func sanitise(line []byte) string {
	const most = 120
	if len(line) > most {
		return strconv.QuoteToASCII(string(line[:most])) + "…"
	}
	return strconv.QuoteToASCII(string(line))
}
