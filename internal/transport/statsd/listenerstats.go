package statsd

import (
	"reflect"
	"time"
)

// LineStats holds counters of the received lines. All fields only grow.
type LineStats struct {
	Packets uint64 `metric:"hotparam_statsd_in_packets_total" help:"Datagrams received."`
	Bytes   uint64 `metric:"hotparam_statsd_in_bytes_total" help:"Bytes received."`
	// Lines is the sum of the eight kinds of lines from Counted to Malformed, without Requests.
	Lines    uint64 `metric:"hotparam_statsd_in_lines_total" help:"Lines received."`
	Counted  uint64 `metric:"hotparam_statsd_in_counted_total" help:"Lines that count requests for a key."`
	Requests uint64 `metric:"hotparam_statsd_in_requests_total" help:"Requests counted by the lines received."`
	Untimely uint64 `metric:"hotparam_statsd_in_untimely_total" help:"Lines that count requests of more than an hour ago or of the future; not counted."`
	LeftOut  uint64 `metric:"hotparam_statsd_in_left_out_total" help:"Lines that count requests of an unknown time, because they waited while this process stood still; not counted."`
	Members  uint64 `metric:"hotparam_statsd_in_members_total" help:"Lines that name clients of a key."`
	Alive    uint64 `metric:"hotparam_statsd_in_alive_total" help:"Heartbeats of senders received."`
	// Foreign is the number of lines with other names. IgnoredTypes is the number of lines with our names and a known
	// type that is neither counter nor set, and of events and service checks. All are normal.
	Foreign      uint64 `metric:"hotparam_statsd_in_foreign_total" help:"Lines with metrics of other programs; normal."`
	IgnoredTypes uint64 `metric:"hotparam_statsd_in_other_types_total" help:"Lines with our names that are neither counters nor sets, and events and service checks; normal."`
	// Malformed is the number of lines that could not be read, were longer than MaxLine, or were cut off by the end of
	// a connection.
	Malformed uint64 `metric:"hotparam_statsd_in_malformed_total" help:"Malformed lines."`
	NamesFull uint64 `metric:"hotparam_statsd_in_names_full_total" help:"Times that all cached metric names were discarded to make room. No counts are lost."`
}

// ListenerStats holds the counters of a Listener. All fields but ReceiveBuffer and Connections only grow.
type ListenerStats struct {
	LineStats
	// MalformedBy holds the malformed lines by their fault.
	MalformedBy   map[string]MalformedStats `label:"reason"`
	KernelDrops   uint64                    `metric:"hotparam_statsd_in_kernel_drops_total" help:"Datagrams lost because the receive buffer was full."`
	ReceiveBuffer int64                     `metric:"hotparam_statsd_in_receive_buffer_bytes" help:"Size of the smallest receive buffer in bytes, or 0 if the system does not report it."`
	// Sockets holds the datagram sockets by address, with a number if several share one.
	Sockets             map[string]SocketStats `label:"socket"`
	Connections         int64                  `metric:"hotparam_statsd_in_connections" help:"TCP connections that are open."`
	ConnectionsAccepted uint64                 `metric:"hotparam_statsd_in_connections_accepted_total" help:"TCP connections accepted."`
	ConnectionsRejected uint64                 `metric:"hotparam_statsd_in_connections_rejected_total" help:"TCP connections closed at once because too many were open."`
	ConnectionsIdle     uint64                 `metric:"hotparam_statsd_in_connections_idle_total" help:"TCP connections closed because they were silent."`
	SendersRejected     uint64                 `metric:"hotparam_statsd_in_senders_rejected_total" help:"Datagrams and connections from addresses that are not in statsd.allow."`
	// Forward holds the counters of the forwarding, or nil without it.
	Forward *ForwardStats
}

// SocketStats holds the kernel's statistics of one socket.
type SocketStats struct {
	KernelDrops   uint64 `metric:"hotparam_statsd_in_socket_kernel_drops_total" help:"Datagrams lost because the receive buffer of this socket was full."`
	ReceiveBuffer int64  `metric:"hotparam_statsd_in_socket_receive_buffer_bytes" help:"Size of this socket's receive buffer in bytes."`
}

// ForwardStats holds the counters of the forwarded lines. All fields only grow.
type ForwardStats struct {
	// Lines and Datagrams count the data that the kernel accepted; whether it arrived is unknown.
	Lines     uint64 `metric:"hotparam_statsd_in_forward_lines_total" help:"Lines passed on to the next StatsD server."`
	Datagrams uint64 `metric:"hotparam_statsd_in_forward_datagrams_total" help:"Datagrams passed on to the next StatsD server."`
	Dropped   uint64 `metric:"hotparam_statsd_in_forward_dropped_total" help:"Lines that were not passed on in time."`
	Errors    uint64 `metric:"hotparam_statsd_in_forward_errors_total" help:"Datagrams that could not be passed on."`
	Refused   uint64 `metric:"hotparam_statsd_in_forward_refused_total" help:"Datagrams that the next server's host refused: nothing listens there."`
}

// received holds the counters of one reader.
type received struct {
	LineStats
	faults [faultCount]uint64
	heard  time.Time // of our last line, or zero before the first
}

// ownLineCount returns the number of lines that a sender of ours may have sent: all but lines with other names, of
// ignored types, events and service checks. It includes malformed lines, with or without a name, because they may be
// lines of ours that were damaged.
func (r *received) ownLineCount() uint64 { return r.Lines - r.Foreign - r.IgnoredTypes }

// addTo adds the counters to the counters of other readers.
func (r *received) addTo(all *ListenerStats) {
	addCounters(&all.LineStats, r.LineStats)
	for f := noFault + 1; f < faultCount; f++ {
		all.MalformedBy[reasons[f].name] = MalformedStats{all.MalformedBy[reasons[f].name].Lines + r.faults[f]}
	}
}

// addCounters adds the counters of one to the counters of all; other fields stay unchanged.
func addCounters[S any](all *S, one S) {
	to, from := reflect.ValueOf(all).Elem(), reflect.ValueOf(one)
	for i := range to.NumField() {
		switch n := to.Field(i); n.Kind() {
		case reflect.Uint64:
			n.SetUint(n.Uint() + from.Field(i).Uint())
		case reflect.Int64:
			n.SetInt(n.Int() + from.Field(i).Int())
		}
	}
}
