package e2e

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/statsd"
	"github.com/hotparam/pipeline/test/internal/program"
)

// Counts that were received before SIGTERM are sent, however far away the next flush is.
func TestStop_SendsReceivedCounts(t *testing.T) {
	t.Parallel()
	counts := make(chan []hottype.Count, 100)
	server, err := statsd.NewListener(statsd.ListenerConfig{
		Addresses: []string{freeport.Addr(t)}, Names: canon.Names{Prefix: "hotparam", Style: canon.StyleHP1},
		Handle: func(c []hottype.Count) { counts <- c },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	mirror, in, admin := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	log := write(t, "access.log", "")
	p := launch(t, "collector", "--config", write(t, "hotparam.yaml", pipelineRules), "--mirror.listen", mirror,
		"--statsd.listen", in,
		"--accesslog.file", log, "--accesslog.format", "combined", "--statsd.addr", server.Addr().String(),
		"--tally.flush", "1h", "--admin.listen", admin)
	ready(t, admin)

	const each = 50
	conn, err := net.Dial("udp", in)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var lines strings.Builder
	stamp := time.Now().Format("02/Jan/2006:15:04:05 -0700")
	for range each {
		if _, err := conn.Write([]byte("hotparam.topic.hot_param.id=1:1|c")); err != nil {
			t.Fatal(err)
		}
		do(t, http.MethodGet, "http://"+mirror+"/topic?id=1", "", nil)
		lines.WriteString(`192.0.2.1 - - [` + stamp + `] "GET /topic?id=1 HTTP/1.1" 200 1 "-" "-"` + "\n")
	}
	appendTo(t, log, lines.String())
	// The metric shows that each way in has received everything.
	program.Await(t, time.Minute, "everything to be received", func() bool {
		_, m := get(t, "http://"+admin+"/metrics")
		return strings.Contains(m, "hotparam_tally_added_total 150")
	})
	if code := p.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	total := int64(0)
	for deadline := time.After(20 * time.Second); total < 3*each; {
		select {
		case batch := <-counts:
			for _, c := range batch {
				if c.Key != "topic?id=1" {
					t.Errorf("a count for %q", c.Key)
				}
				total += c.N
			}
		case <-deadline:
			t.Fatalf("%d of %d counts arrived", total, 3*each)
		}
	}
	if total != 3*each {
		t.Errorf("%d counts arrived, %d were received", total, 3*each)
	}
}
