package metrics

import (
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/serving/mirrored"
	"github.com/hotparam/pipeline/internal/transport/graphite"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// Tally gives the metrics of the sums in memory.
func Tally(stats func() tally.Stats) Collector {
	return of(stats, func(to scrape, s tally.Stats) {
		to.counter("hotparam_tally_added_total", "Requests counted.", s.Added)
		to.counter("hotparam_tally_flushed_total", "Requests counted whose sums were sent.", s.Flushed)
		to.counter("hotparam_tally_dropped_full_total",
			"Requests not counted because too many keys were requested within one flush interval.", s.DroppedFull)
		to.counter("hotparam_tally_dropped_sink_total",
			"Requests whose counts were dropped because sending them failed twice.", s.DroppedSink)
		to.counter("hotparam_tally_dropped_clients_total",
			"Requests counted without their client, because too many clients asked for the key.", s.DroppedClients)
		to.counter("hotparam_tally_sink_errors_total", "Attempts to send sums that failed.", s.SinkErrors)
		to.gauge("hotparam_tally_keys", "Pairs of key and second that are being summed.", float64(s.Keys))
		to.gauge("hotparam_tally_pending", "Pairs of key and second that are sent again.", float64(s.Pending))
		to.gauge("hotparam_tally_followed", "Keys whose clients are counted too.", float64(s.Followed))
	})
}

// StatsDSender gives the metrics of the counts that are sent to StatsD servers.
func StatsDSender(stats func() statsd.SenderStats) Collector {
	return of(stats, func(to scrape, s statsd.SenderStats) {
		to.statsdServer("hotparam_statsd", &s.ServerStats)
		each(to, "server", s.Servers, func(to scrape, server statsd.ServerStats) {
			to.statsdServer("hotparam_statsd_servers", &server)
		})
	})
}

// statsdServer sends the metrics of one server or of all together.
func (to scrape) statsdServer(prefix string, s *statsd.ServerStats) {
	counter := func(name, help string, n uint64) { to.counter(prefix+name, help, n) }
	counter("_sent_total", "Requests whose counts were sent to StatsD.", s.Sent)
	counter("_dropped_total", "Requests whose counts were dropped because StatsD did not take them in time.", s.Dropped)
	counter("_invalid_total",
		"Requests whose counts cannot be sent, because the metric's name would be too long.", s.Invalid)
	counter("_lines_total", "Lines sent to StatsD.", s.Lines)
	counter("_set_lines_total", "Lines made that name clients of a key, lost ones included.", s.SetLines)
	counter("_datagrams_total", "Datagrams sent to StatsD.", s.Datagrams)
	counter("_errors_total", "Name look-ups, sockets and writes that failed.", s.Errors)
	counter("_refused_total", "Datagrams that the server's host refused: nothing listens there.", s.Refused)
	to.gauge(prefix+"_queued", "Counts that wait to be sent.", float64(s.Queued))
	to.flag(prefix+"_down", "1 while the last counts could not be sent.", s.Down)
}

// StatsDListener gives the metrics of the counts that arrive by StatsD.
func StatsDListener(stats func() statsd.ListenerStats) Collector {
	return of(stats, func(to scrape, s statsd.ListenerStats) {
		to.counter("hotparam_statsd_in_packets_total", "Datagrams received.", s.Packets)
		to.counter("hotparam_statsd_in_bytes_total", "Bytes received.", s.Bytes)
		to.statsdLines(&s)
		to.counter("hotparam_statsd_in_names_full_total",
			"Times that all known metric names were forgotten to make room; nothing is lost by it.", s.NamesFull)
		to.counter("hotparam_statsd_in_kernel_drops_total",
			"Datagrams lost because the receive buffer was full.", s.KernelDrops)
		to.gauge("hotparam_statsd_in_receive_buffer_bytes",
			"Size of the smallest receive buffer in bytes; 0 where the system does not tell.", float64(s.ReceiveBuffer))
		each(to, "socket", s.Sockets, func(to scrape, socket statsd.SocketStats) {
			to.counter("hotparam_statsd_in_socket_kernel_drops_total",
				"Datagrams lost because the receive buffer of this socket was full.", socket.KernelDrops)
			to.gauge("hotparam_statsd_in_socket_receive_buffer_bytes",
				"Size of this socket's receive buffer in bytes.", float64(socket.ReceiveBuffer))
		})
		to.gauge("hotparam_statsd_in_connections", "TCP connections that are open.", float64(s.Connections))
		to.counter("hotparam_statsd_in_connections_accepted_total", "TCP connections accepted.", s.ConnectionsAccepted)
		to.counter("hotparam_statsd_in_connections_refused_total",
			"TCP connections closed at once because too many were open.", s.ConnectionsRefused)
		to.counter("hotparam_statsd_in_connections_idle_total",
			"TCP connections closed because they were silent.", s.ConnectionsIdle)
		to.counter("hotparam_statsd_in_senders_refused_total",
			"Datagrams and connections from addresses that are not in statsd.allow.", s.SendersRefused)
		if s.Forward != nil {
			to.statsdForward(s.Forward)
		}
	})
}

// statsdLines sends what became of the lines received.
func (to scrape) statsdLines(s *statsd.ListenerStats) {
	to.counter("hotparam_statsd_in_lines_total", "Lines received.", s.Lines)
	to.counter("hotparam_statsd_in_counted_total", "Lines that count requests for a key.", s.Counted)
	to.counter("hotparam_statsd_in_requests_total", "Requests that these lines count.", s.Requests)
	to.counter("hotparam_statsd_in_untimely_total",
		"Lines that count requests of more than an hour ago or of the future; not counted.", s.Untimely)
	to.counter("hotparam_statsd_in_members_total", "Lines that name clients of a key.", s.Members)
	to.counter("hotparam_statsd_in_alive_total", "Lines by which senders say that they are alive.", s.Alive)
	to.counter("hotparam_statsd_in_foreign_total", "Lines with metrics of other programs; normal.", s.Foreign)
	to.counter("hotparam_statsd_in_other_types_total",
		"Lines with our names that are neither counters nor sets; normal.", s.OtherTypes)
	to.counter("hotparam_statsd_in_malformed_total", "Lines that cannot be read.", s.Malformed)
	each(to, "reason", s.MalformedBy, func(to scrape, m statsd.MalformedStats) {
		to.counter("hotparam_statsd_in_malformed_lines_total",
			"Lines that cannot be read, by what is wrong with them.", m.Lines)
	})
}

func (to scrape) statsdForward(s *statsd.ForwardStats) {
	to.counter("hotparam_statsd_in_forward_lines_total", "Lines passed on to the next StatsD server.", s.Lines)
	to.counter("hotparam_statsd_in_forward_datagrams_total",
		"Datagrams passed on to the next StatsD server.", s.Datagrams)
	to.counter("hotparam_statsd_in_forward_dropped_total", "Lines that could not be passed on in time.", s.Dropped)
	to.counter("hotparam_statsd_in_forward_errors_total", "Datagrams that could not be passed on.", s.Errors)
	to.counter("hotparam_statsd_in_forward_refused_total",
		"Datagrams that the next server's host refused: nothing listens there.", s.Refused)
}

// KafkaProducer gives the metrics of the counts that are written to Kafka.
func KafkaProducer(stats func() kafka.ProducerStats) Collector {
	return of(stats, func(to scrape, s kafka.ProducerStats) {
		to.counter("hotparam_kafka_sent_total", "Requests whose counts Kafka confirmed.", s.Sent)
		to.counter("hotparam_kafka_dropped_total",
			"Requests whose counts were dropped because no broker confirmed them in time.", s.Dropped)
		to.counter("hotparam_kafka_invalid_total",
			"Counts that cannot be written: a key or a number out of bounds.", s.Invalid)
		to.counter("hotparam_kafka_records_total", "Records written.", s.Records)
		to.counter("hotparam_kafka_errors_total", "Attempts to write a record that failed.", s.Errors)
		to.gauge("hotparam_kafka_queued", "Pairs of key and second that Kafka has not confirmed.", float64(s.Queued))
		to.gauge("hotparam_kafka_connected", "1 while the brokers take what is sent.", float64(s.Connected))
	})
}

// KafkaConsumer gives the metrics of the counts that are read from Kafka.
func KafkaConsumer(stats func() kafka.ConsumerStats) Collector {
	return of(stats, func(to scrape, s kafka.ConsumerStats) {
		to.counter("hotparam_kafka_in_records_total", "Records read, those read again included.", s.Records)
		to.counter("hotparam_kafka_in_reread_total",
			"Records that a former owner of the partition had read already.", s.Reread)
		to.counter("hotparam_kafka_in_skipped_total",
			"Records skipped because they were too old when reading began.", s.Skipped)
		to.counter("hotparam_kafka_in_jumps_total", "Times that records were skipped.", s.Jumps)
		to.counter("hotparam_kafka_in_counts_total", "Pairs of key and second read.", s.Counts)
		to.counter("hotparam_kafka_in_requests_total", "Requests that these count.", s.Requests)
		to.counter("hotparam_kafka_in_malformed_total", "Records that cannot be read.", s.Malformed)
		to.counter("hotparam_kafka_in_foreign_total", "Records of other namespaces; not counted.", s.Foreign)
		to.counter("hotparam_kafka_in_duplicates_total", "Records that were read before; not counted again.",
			s.Duplicates)
		to.counter("hotparam_kafka_in_misplaced_total", "Records whose first key belongs to another partition: "+
			"their producer does not follow docs/protocol.md, or partitions were added.", s.Misplaced)
		to.counter("hotparam_kafka_in_errors_total", "Errors that the Kafka client reported.", s.Errors)
		to.gauge("hotparam_kafka_in_partitions", "Partitions that this process reads.", float64(s.Partitions))
		to.gauge("hotparam_kafka_in_lag_seconds",
			"How long the oldest unread record of these partitions has been waiting, at most.", s.Lag.Seconds())
		each(to, "partition", s.Partition, func(to scrape, p kafka.PartitionStats) {
			to.gauge("hotparam_kafka_in_partition_lag_seconds",
				"How long this partition's oldest unread record has been waiting, at most.", p.Lag.Seconds())
		})
	})
}

// Graphite gives the metrics of the counts that are read from Graphite.
func Graphite(stats func() graphite.Stats) Collector {
	return of(stats, func(to scrape, s graphite.Stats) {
		to.counter("hotparam_graphite_polls_total", "Polls that ended.", s.Polls)
		to.counter("hotparam_graphite_failed_total", "Polls that failed.", s.Failed)
		to.gauge("hotparam_graphite_series", "Series in the answer to the last poll.", float64(s.Series))
		to.gauge("hotparam_graphite_tracked", "Series remembered, so that none is counted twice.", float64(s.Tracked))
		to.counter("hotparam_graphite_buckets_total", "New values read, one for each series and flush.", s.Buckets)
		to.counter("hotparam_graphite_requests_total", "Requests that they count.", s.Requests)
		to.counter("hotparam_graphite_dropped_foreign_total",
			"Series of other programs in the answers.", s.DroppedForeign)
		to.counter("hotparam_graphite_dropped_name_total",
			"Series in the answers whose name cannot be read.", s.DroppedName)
		to.counter("hotparam_graphite_dropped_full_total",
			"Series in the answers beyond the most that are remembered.", s.DroppedFull)
		to.counter("hotparam_graphite_dropped_value_total", "Points with an impossible value or time.", s.DroppedValue)
		to.counter("hotparam_graphite_dropped_old_total",
			"Requests that are older than every window; not counted.", s.DroppedOld)
		to.counter("hotparam_graphite_dropped_shift_total",
			"Requests in the seconds left out because the delay became shorter.", s.DroppedShift)
		to.gauge("hotparam_graphite_clock_difference_seconds",
			"Graphite's clock less ours.", s.ClockDifference.Seconds())
		to.gauge("hotparam_graphite_delay_seconds",
			"How far counts are moved towards the present, because Graphite has them late.", s.Delay.Seconds())
		to.gauge("hotparam_graphite_step_seconds",
			"Time between two points in Graphite; if longer than the flush interval, counts are lost.",
			s.Step.Seconds())
		to.gauge("hotparam_graphite_took_seconds", "Duration of the last poll.", s.Took.Seconds())
		to.gauge("hotparam_graphite_last_success_timestamp_seconds",
			"When a poll last succeeded, in unix seconds.", unixSeconds(s.LastSuccess))
	})
}

// Mirror gives the metrics of the copied requests that are counted.
func Mirror(stats func() mirrored.Stats) Collector {
	return of(stats, func(to scrape, s mirrored.Stats) {
		to.counter("hotparam_mirror_requests_total", "Copied requests received.", s.Requests)
		to.counter("hotparam_mirror_unmatched_total", "Copied requests that no rule counts.", s.Unmatched)
		to.counter("hotparam_mirror_malformed_total",
			"Copied requests counted under a reserved key, because their parameters are out of bounds.", s.Malformed)
	})
}

// AccessLogStats counts the lines of all access logs that a program follows.
type AccessLogStats struct {
	Lines   uint64
	TooLong uint64 // lines that were cut off
	// Malformed lines cannot be read, Skipped ones are empty or comments.
	Malformed, Skipped uint64
	Errors             uint64 // failures to open or read a log
}

// AccessLogs gives the metrics of the access logs that are counted.
func AccessLogs(stats func() AccessLogStats) Collector {
	return of(stats, func(to scrape, s AccessLogStats) {
		to.counter("hotparam_accesslog_lines_total", "Lines read.", s.Lines)
		to.counter("hotparam_accesslog_too_long_total", "Lines not read because they are too long.", s.TooLong)
		to.counter("hotparam_accesslog_malformed_total", "Lines that cannot be read.", s.Malformed)
		to.counter("hotparam_accesslog_skipped_total", "Empty lines and comments.", s.Skipped)
		to.counter("hotparam_accesslog_errors_total", "Failures to open or read a log.", s.Errors)
	})
}
