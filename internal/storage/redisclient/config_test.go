package redisclient

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/tlsfiles"
)

func TestConfig_ParsesAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want string // address, user, password, database, TLS
	}{
		{"redis.internal:6380", "redis.internal:6380   0 false"},
		{"redis.internal", "redis.internal:6379   0 false"},
		{"::1", "[::1]:6379   0 false"},
		{"[::1]:7000", "[::1]:7000   0 false"},
		{"/run/redis.sock", "/run/redis.sock   0 false"},
		{"unix:///run/redis.sock", "/run/redis.sock   0 false"},
		{"unix:/run/redis.sock", "/run/redis.sock   0 false"},
		{"redis://h", "h:6379   0 false"},
		{"redis://:s3cret@h:1/2", "h:1  s3cret 2 false"},
		{"rediss://u:p%40ss@h:1", "h:1 u p@ss 0 true"},
	} {
		cfg, o, err := Config{Addrs: []string{c.in}}.resolve()
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		got := strings.Join([]string{o.Addrs[0], o.Username, o.Password, string(rune('0' + o.DB)),
			map[bool]string{true: "true", false: "false"}[cfg.TLS]}, " ")
		if got != c.want || cfg.Namespace != "default" {
			t.Errorf("%q: %q; want %q", c.in, got, c.want)
		}
	}
}

func TestConfig_ErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	addr := func(a ...string) Config { return Config{Addrs: a} }
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{addr("host:port"), `port "port"`},
		{addr("host:0"), `port "0"`},
		{addr("host:70000"), "1 to 65535"},
		{addr(""), "bad host"},
		{addr("a b:1"), `bad host "a b"`},
		{addr("a:1,b:2"), "must be host:port"},
		{addr("a", "b:x"), `port "x"`},
		{addr("http://u:s3cret@h"), `scheme "http"`},
		{addr("redis://u:s3cret@h/x"), "not a database number"},
		{addr("redis://u:s3cret@h/?db=1"), "use the settings"},
		{addr("redis://u:s3cret@h:bad"), "not a valid URL"},
		{addr("redis://:12/s3cret@h:1/0"), "not a database number"},
		{addr("redis://u:12?s3cret@h:1/0"), "use the settings"},
		{addr("redis://:s3cret#@h:1/0"), "not a valid URL"},
		{addr("redis://:99999s3cret/x@h:1/0"), "not a valid URL"},
		{addr("redis://:s3cret@h:1", "b"), "only a single address"},
		{Config{SentinelMaster: "m", Addrs: []string{"redis://:s3cret@h:1"}}, "no address of a Sentinel"},
		{addr("redis://u:s3cret@h\x7f"), "not a valid URL"},
		{addr("unix://run/x"), "unix:///path"},
		{Config{Namespace: "a{b}"}, `namespace "a{b}"`},
		{Config{Namespace: strings.Repeat("n", 65)}, "1 to 64"},
		{Config{Timeout: -1}, "timeout"},
		{Config{PoolSize: -1}, "pool size -1"},
		{Config{DB: -1}, "db -1"},
		{Config{DB: 1, Cluster: true}, "only db 0"},
		{Config{SentinelMaster: "m", Cluster: true}, "not a cluster"},
		{Config{SentinelPassword: "s3cret"}, "without sentinel_master"},
		{Config{TLSFiles: tlsfiles.Files{CA: "/absent.pem"}}, "tls_ca: open /absent.pem"},
		{Config{TLSFiles: tlsfiles.Files{CA: "config_test.go"}}, "no certificate in PEM"},
		{Config{TLSFiles: tlsfiles.Files{Cert: "c.pem"}}, "tls_cert: certificate and key go together"},
		{Config{TLSFiles: tlsfiles.Files{Cert: "/absent.pem", Key: "/absent.pem"}},
			"tls_cert: certificate /absent.pem with key /absent.pem: open /absent.pem"},
	} {
		_, err := Open(c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "redisclient: ") {
			t.Errorf("%+v: %v; want %q", c.cfg, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// A server that does not exist is not an error of Open; calls fail at once, each time.
func TestClient_FailsAtOnceWithoutAServer(t *testing.T) {
	t.Parallel()
	c := openWith(t, Config{Addrs: []string{"127.0.0.1:1"}})
	start := time.Now()
	for range 200 { // more than the pool has places
		if err := c.Ping(context.Background()); err == nil || !strings.Contains(err.Error(), "dial tcp 127.0.0.1:1") {
			t.Fatalf("ping: %v", err)
		}
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("200 refusals took %v", d)
	}
}
