// Package arrival measures whether counts arrive. A sender of StatsD lines states once a second how many lines it has
// sent, the receiver publishes how many it received, and a [Monitor] of the sender compares the two.
//
//	sender ── heartbeat: id, lines sent ──> receiver ──> Redis ── [Report] ──> Monitor of the sender
//
// A flow is the lines that one socket of a sender sends to one server. Its id is new for each socket, so that numbers
// of two sockets are never compared. The package is pure: time is an argument.
package arrival

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Flow is the state of one flow at a receiver. All numbers are lines.
type Flow struct {
	// Sent is the sender's number in the newest heartbeat, First its number in the first received heartbeat, and
	// Received the number of lines that came in between.
	Sent, First, Received uint64
	// Uncounted is true if Received is unknown, because the lines came by a stream, or because other lines came from
	// the same address.
	Uncounted bool
}

// Report holds all flows that one receiver published.
type Report struct {
	Publisher string
	// Complete is true if a sender whose flow is absent does not reach this publisher. Otherwise it may reach it
	// unnoticed.
	Complete bool
	Flows    map[string]Flow
}

const maxID = 32

// Append appends a flow as text: "sent-first-received", or "sent--" if it is uncounted.
func (f Flow) Append(dst []byte) []byte {
	dst = append(strconv.AppendUint(dst, f.Sent, 10), '-')
	if f.Uncounted {
		return append(dst, '-')
	}
	dst = append(strconv.AppendUint(dst, f.First, 10), '-')
	return strconv.AppendUint(dst, f.Received, 10)
}

// ParseFlow parses the text of Append.
func ParseFlow(text string) (f Flow, err error) {
	sent, rest, _ := strings.Cut(text, "-")
	first, received, ok := strings.Cut(rest, "-")
	if !ok {
		return f, fmt.Errorf("arrival: %q is not sent-first-received", text)
	}
	var errs [3]error
	f.Sent, errs[0] = strconv.ParseUint(sent, 10, 64)
	if f.Uncounted = rest == "-"; !f.Uncounted {
		f.First, errs[1] = strconv.ParseUint(first, 10, 64)
		f.Received, errs[2] = strconv.ParseUint(received, 10, 64)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return Flow{}, fmt.Errorf("arrival: %q: %w", text, err)
	}
	return f, nil
}

// AppendHeartbeat appends a sender's own heartbeat: "id-sent".
func AppendHeartbeat(dst []byte, id string, sent uint64) []byte {
	return strconv.AppendUint(append(append(dst, id...), '-'), sent, 10)
}

// AppendRelayed appends the heartbeat of a flow that this program received: "id-sent-first-received".
func AppendRelayed(dst []byte, id string, f Flow) []byte {
	return f.Append(append(append(dst, id...), '-'))
}

// ParseHeartbeat parses the text of AppendHeartbeat or AppendRelayed; in a flow that is not relayed, only Sent is set.
func ParseHeartbeat(text string) (id string, f Flow, relayed bool, err error) {
	id, rest, _ := strings.Cut(text, "-")
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, notAlphanumeric) {
		return "", f, false, fmt.Errorf("arrival: heartbeat %q has no id of letters and digits", text)
	}
	if relayed = strings.Contains(rest, "-"); relayed {
		f, err = ParseFlow(rest)
		return id, f, relayed, err
	}
	if f.Sent, err = strconv.ParseUint(rest, 10, 64); err != nil {
		return "", f, false, fmt.Errorf("arrival: heartbeat %q: %w", text, err)
	}
	return id, f, relayed, nil
}

func notAlphanumeric(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}
