package statsd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
)

// BenchmarkServerQueue writes batches without the pauses between datagrams.
func BenchmarkServerQueue(b *testing.B) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	who := new(hottype.ClientSketch)
	for i := range 40 {
		clientsketch.Add(who, hottype.ParseClient(fmt.Sprintf("192.0.2.%d", i)), 1)
	}
	for name, tc := range map[string]struct {
		n   int
		who *hottype.ClientSketch
	}{"counters": {1000, nil}, "client sketches": {1000, who}} {
		b.Run(name, func(b *testing.B) {
			cfg := SenderConfig{Names: canon.Names{Prefix: "hp.news"},
				Log: slog.New(slog.DiscardHandler)}.withDefaults()
			l, err := newServerQueue(conn.LocalAddr().String(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer l.link.close()
			l.interval = 0
			counts := make([]hottype.Count, tc.n)
			for i := range counts {
				counts[i] = hottype.Count{Key: hottype.Key(fmt.Sprintf("topic?id=%d&lang=en", i)), N: int64(i + 1),
					Clients: tc.who}
			}
			b.ReportAllocs()
			for b.Loop() {
				now := time.Now()
				l.sendBatch(b.Context(), batchqueue.Batch{Counts: counts, At: now}, now.Add(time.Second))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tc.n), "ns/count")
		})
	}
}

// BenchmarkBurst sends 50,000 lines at once to a listener with the receive buffer that most systems have by default,
// with and without a pace. Lost is the number of lines that found that buffer full.
func BenchmarkBurst(b *testing.B) {
	quiet := slog.New(slog.DiscardHandler)
	counts := make([]hottype.Count, 50_000)
	for i := range counts {
		counts[i] = hottype.Count{Key: hottype.Key(fmt.Sprintf("topic?id=%d&lang=en", i)), N: 1}
	}
	for name, interval := range map[string]time.Duration{"paced": 100 * time.Millisecond, "at once": 0} {
		b.Run(name, func(b *testing.B) {
			names := canon.Names{Prefix: "hp.news"}
			in, err := NewListener(ListenerConfig{
				Addresses: []string{"127.0.0.1:0"}, Names: names, ReadBuffer: 212992 / 2,
				Handle: func([]hottype.Count) {}, Log: quiet,
			})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- in.Run(ctx) }()
			l, err := newServerQueue(in.Addr().String(), SenderConfig{Names: names, Log: quiet}.withDefaults())
			if err != nil {
				b.Fatal(err)
			}
			defer l.link.close()
			l.interval = interval
			for b.Loop() {
				now := time.Now()
				l.sendBatch(b.Context(), batchqueue.Batch{Counts: counts, At: now}, now.Add(5*time.Second))
			}
			cancel()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(100*(1-float64(in.Stats().Packets)/float64(l.serverStats().Datagrams)), "%lost")
		})
	}
}
