package statsd_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// BenchmarkLoopback sends full datagrams through the kernel as fast as one core can. Drops are the datagrams with which
// the reader could not keep up.
func BenchmarkLoopback(b *testing.B) {
	l, err := statsd.NewListener(statsd.ListenerConfig{
		Addresses: []string{"127.0.0.1:0"}, Names: hp1, Handle: func([]hottype.Count) {},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	conn, err := net.Dial("udp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	var packets [][]byte
	const lines = 24
	for i := range 1000 {
		var p []byte
		for j := range lines {
			p = fmt.Appendf(p, "hp.news.topic.hot_param.id=%d-lang=en:1|c\n", (i*lines+j)%20000)
		}
		packets = append(packets, p)
	}
	b.ResetTimer()
	for i := range b.N {
		_, _ = conn.Write(packets[i%len(packets)])
	}
	cancel()
	<-done
	s := l.Stats()
	b.ReportMetric(float64(s.Packets)/b.Elapsed().Seconds(), "packets/s")
	b.ReportMetric(float64(s.Lines)/b.Elapsed().Seconds()/1e6, "Mmetrics/s")
	b.ReportMetric(100*(1-float64(s.Packets)/float64(b.N)), "%lost")
}
