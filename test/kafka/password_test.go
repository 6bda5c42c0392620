package kafka_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// A password is replaced at the brokers first and in the file later, while programs run: the old password is refused,
// the new one is sent as soon as the file has it, and each count arrives exactly once.
func TestPasswordFile_IsReadForNewConnections(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			port, dir, path := freeport.Port(t), t.TempDir(), filepath.Join(t.TempDir(), "password")
			write := func(password string) {
				if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			start := func(password string) *kfake.Cluster {
				_ = os.Remove(filepath.Join(dir, "sasl.json")) // the cluster would keep the first password
				return cluster(t, kfake.Ports(port), kfake.DataDir(dir), kfake.SeedTopics(2, topic), kfake.EnableSASL(),
					kfake.Superuser(mechanism, "hp", password), kfake.GroupMinSessionTimeout(time.Second))
			}
			write("first")
			first := start("first")
			var log logTo
			cfg := config(address(port))
			cfg.Log, cfg.Login = log.logger(), kafka.Login{Mechanism: mechanism, Username: "hp", PasswordFile: path}
			in := &inbox{}
			c, _ := consumer(t, in, kafka.ConsumerConfig{Config: cfg, Backlog: time.Minute,
				SessionTimeout: 2 * time.Second}) // by PLAIN the group waits so long for the member from before
			p, _ := producer(t, kafka.ProducerConfig{Config: cfg, MaxAge: time.Minute})
			counts, total := batch(50)
			_ = p.Send(t.Context(), counts)
			await(t, "the first counts", func() bool { return in.total() == total })

			first.Close()
			start("second")
			counts, _ = batch(50)
			_ = p.Send(t.Context(), counts)
			await(t, "the producer and the consumer to be refused", func() bool {
				_, _, err := c.LastReceived()
				return p.Outage() != nil && err != nil
			})
			write("second")
			var got int64
			await(t, "all counts", func() bool {
				got = in.total()
				return got >= 2*total && p.Outage() == nil
			})
			if s := p.Stats(); got != 2*total || s.Dropped != 0 {
				t.Errorf("%d of %d; %+v", got, 2*total, s)
			}
			if out := log.String(); strings.Contains(out, "first") || strings.Contains(out, "second ") {
				t.Errorf("log:\n%s", out)
			}
		})
	}
}
