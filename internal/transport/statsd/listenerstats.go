package statsd

import "sync/atomic"

// ListenerStats is what a Listener received. All but ReceiveBuffer and Connections only grow.
type ListenerStats struct {
	Packets uint64 `metric:"hotparam_statsd_in_packets_total" help:"Datagrams received."`
	Bytes   uint64 `metric:"hotparam_statsd_in_bytes_total" help:"Bytes received."`
	// Lines is the sum of the seven kinds from Counted to Malformed but Requests.
	Lines    uint64 `metric:"hotparam_statsd_in_lines_total" help:"Lines received."`
	Counted  uint64 `metric:"hotparam_statsd_in_counted_total" help:"Lines that count requests for a key."`
	Requests uint64 `metric:"hotparam_statsd_in_requests_total" help:"Requests counted by the lines received."`
	Untimely uint64 `metric:"hotparam_statsd_in_untimely_total" help:"Lines that count requests of more than an hour ago or of the future; not counted."`
	Members  uint64 `metric:"hotparam_statsd_in_members_total" help:"Lines that name clients of a key."`
	Alive    uint64 `metric:"hotparam_statsd_in_alive_total" help:"Heartbeats of senders received."`
	// Foreign lines have other names, OtherTypes our names and are neither
	// counters nor sets; or are events and service checks. All are normal.
	Foreign    uint64 `metric:"hotparam_statsd_in_foreign_total" help:"Lines with metrics of other programs; normal."`
	OtherTypes uint64 `metric:"hotparam_statsd_in_other_types_total" help:"Lines with our names that are neither counters nor sets; normal."`
	// Malformed lines could not be read, or were longer than MaxLine, or were
	// cut off by the end of a connection.
	Malformed uint64 `metric:"hotparam_statsd_in_malformed_total" help:"Lines that cannot be read."`
	// MalformedBy are the same lines by what is wrong with them.
	MalformedBy   map[string]MalformedStats `label:"reason"`
	NamesFull     uint64                    `metric:"hotparam_statsd_in_names_full_total" help:"Times that all known metric names were forgotten to make room; nothing is lost by it."`
	KernelDrops   uint64                    `metric:"hotparam_statsd_in_kernel_drops_total" help:"Datagrams lost because the receive buffer was full."`
	ReceiveBuffer int64                     `metric:"hotparam_statsd_in_receive_buffer_bytes" help:"Size of the smallest receive buffer in bytes; 0 where the system does not report it."`
	// Sockets are the datagram sockets by address, with a number where several share one.
	Sockets             map[string]SocketStats `label:"socket"`
	Connections         int64                  `metric:"hotparam_statsd_in_connections" help:"TCP connections that are open."`
	ConnectionsAccepted uint64                 `metric:"hotparam_statsd_in_connections_accepted_total" help:"TCP connections accepted."`
	ConnectionsRejected uint64                 `metric:"hotparam_statsd_in_connections_rejected_total" help:"TCP connections closed at once because too many were open."`
	ConnectionsIdle     uint64                 `metric:"hotparam_statsd_in_connections_idle_total" help:"TCP connections closed because they were silent."`
	SendersRejected     uint64                 `metric:"hotparam_statsd_in_senders_rejected_total" help:"Datagrams and connections from addresses that are not in statsd.allow."`
	// Forward is what was passed on to another server; nil without one.
	Forward *ForwardStats
}

// SocketStats is what the kernel says about one socket.
type SocketStats struct {
	KernelDrops   uint64 `metric:"hotparam_statsd_in_socket_kernel_drops_total" help:"Datagrams lost because the receive buffer of this socket was full."`
	ReceiveBuffer int64  `metric:"hotparam_statsd_in_socket_receive_buffer_bytes" help:"Size of this socket's receive buffer in bytes."`
}

// ForwardStats is what a Listener passed on. All fields only grow.
type ForwardStats struct {
	// Lines and Datagrams are what the kernel took; whether it arrived is unknown.
	Lines     uint64 `metric:"hotparam_statsd_in_forward_lines_total" help:"Lines passed on to the next StatsD server."`
	Datagrams uint64 `metric:"hotparam_statsd_in_forward_datagrams_total" help:"Datagrams passed on to the next StatsD server."`
	Dropped   uint64 `metric:"hotparam_statsd_in_forward_dropped_total" help:"Lines that could not be passed on in time."`
	Errors    uint64 `metric:"hotparam_statsd_in_forward_errors_total" help:"Datagrams that could not be passed on."`
	Refused   uint64 `metric:"hotparam_statsd_in_forward_refused_total" help:"Datagrams that the next server's host refused: nothing listens there."`
}

// readerStats are added to once a datagram or chunk, by one goroutine.
type readerStats struct {
	packets, bytes, lines, counted, requests, untimely, members, alive, foreign, otherTypes, malformed,
	forgotten atomic.Uint64

	faults faultCounts

	heard atomic.Int64 // unix ns of the last line of ours; 0: none yet
}

// tallies are the counters of one datagram.
type tallies struct{ lines, counted, untimely, members, alive, foreign, otherTypes, malformed uint64 }

// ours are the lines with our names.
func (t *tallies) ours() uint64 { return t.lines - t.foreign - t.otherTypes }

func (s *readerStats) add(t *tallies) {
	for _, c := range []struct {
		to *atomic.Uint64
		n  uint64
	}{
		{&s.lines, t.lines}, {&s.counted, t.counted}, {&s.untimely, t.untimely}, {&s.members, t.members},
		{&s.alive, t.alive},
		{&s.foreign, t.foreign}, {&s.otherTypes, t.otherTypes}, {&s.malformed, t.malformed},
	} {
		if c.n > 0 { // an atomic addition costs more than this look
			c.to.Add(c.n)
		}
	}
}

// read adds the counters to those of other readers.
func (s *readerStats) read(to *ListenerStats) {
	to.Packets += s.packets.Load()
	to.Bytes += s.bytes.Load()
	to.Lines += s.lines.Load()
	to.Counted += s.counted.Load()
	to.Requests += s.requests.Load()
	to.Untimely += s.untimely.Load()
	to.Members += s.members.Load()
	to.Alive += s.alive.Load()
	to.Foreign += s.foreign.Load()
	to.OtherTypes += s.otherTypes.Load()
	to.Malformed += s.malformed.Load()
	if to.MalformedBy == nil {
		to.MalformedBy = map[string]MalformedStats{}
	}
	s.faults.read(to.MalformedBy)
	to.NamesFull += s.forgotten.Load()
}
