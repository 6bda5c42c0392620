package redisstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

// documentation is docs/redis.md, which these tests keep true.
func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryKeyIsDocumented(t *testing.T) {
	t.Parallel()
	text := documentation(t)
	k := newKeys("news")
	for _, name := range []string{
		k.hotVersion(), k.hotIndex(), k.hotSet("<publisher>"), k.hotLog("<publisher>"), k.hotEpoch("<publisher>"), k.hotNotice(),
		k.overrides(), k.overrideUntil(), k.overrideVersion(), k.overrideAudit(), k.overrideNotice(),
		k.report("<instance>"), k.reportIndex(),
		strings.TrimSuffix(k.limitState(&limit.Subject{Space: "hot", Name: "topic?id=42"}), "topic?id=42"),
		strings.TrimSuffix(k.block(k.limitState(&limit.Subject{Space: "hot", Name: "topic?id=42"})), "topic?id=42"),
		shardKeys("news", 0).prefix, shardKeys("news", shardCount-1).prefix,
	} {
		if !strings.Contains(text, "`"+name) {
			t.Errorf("docs/redis.md does not tell of %s", name)
		}
	}
}

// grant makes the users of the documentation on every server, with more rights
// where a cluster needs them.
func grant(t *testing.T, servers []*redistest.Server, more ...any) {
	t.Helper()
	users := 0
	for line := range strings.Lines(documentation(t)) {
		if !strings.HasPrefix(line, "ACL SETUSER hotparam-") {
			continue
		}
		users++
		for _, s := range servers {
			args := append(asKnownTo(s, line), more...)
			if s.Before(7, 0) {
				args = append(args, "+client|setname", "+select", "+asking")
			}
			if err := s.Client().Do(context.Background(), args...).Err(); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
	if users != 2 {
		t.Fatalf("docs/redis.md has %d ACL lines; want 2", users)
	}
}

// asKnownTo makes of a line what the documentation says to write for a server of
// an older version.
func asKnownTo(s *redistest.Server, line string) (args []any) {
	for _, f := range strings.Fields(line) {
		channel := f == "resetchannels" || strings.HasPrefix(f, "&")
		switch {
		case channel && s.Before(6, 2):
			continue
		case strings.HasPrefix(f, "%R~") && s.Before(7, 0):
			f = "~hp:{news}:*"
		}
		args = append(args, strings.ReplaceAll(f, "PASSWORD", "pw"))
	}
	return args
}

func TestDocumentedACLsOnACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	grant(t, c.Nodes, "+cluster|slots", "+cluster|shards", "+command")
	as := func(user string) *Client {
		return openWith(t, Config{Addrs: c.Addrs(), Username: user, Password: "pw", Namespace: "news"})
	}
	aggregator, limiter := as("hotparam-aggregator"), as("hotparam-limiter")
	deliveries, _ := follow(t, limiter)
	eventually(t, "subscription", func() bool { return limiter.hot.subscriptions.Load() > 0 })
	publish(t, aggregator.Publisher("agg"), hot(now(), 1))
	next(t, deliveries, "hot set")
	if err := limiter.WriteReport(context.Background(), report("a", 1)); err != nil {
		t.Error(err)
	}
	if got, err := aggregator.ReadReports(context.Background()); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if err := everything(t, limiter); err != nil {
		t.Errorf("limits with all that goes beside them: %v", err)
	}
}

// everything makes each kind of call that limits make of Redis.
func everything(t *testing.T, c *Client) error {
	ctx, results := context.Background(), make([]limit.Result, 1)
	for i := range 4 * shardCount { // some for every shard
		charge := windowCharge(hottype.Client{Name: strconv.Itoa(i)}, limit.FixedWindow, 1, time.Hour, 1)
		charge.Spec.Block = time.Minute
		for range 2 { // and a denial
			if _, err := c.Limiter().Take(ctx, now(), []limit.Charge{charge}, results); err != nil {
				return err
			}
		}
	}
	w := c.Windows(WindowsConfig{})
	w.ask(t, now(), windowCharge(visitor(1), limit.FixedWindow, 5, time.Hour, 1))
	if w.exchange(ctx); w.Stats().Errors > 0 {
		return errors.New("an exchange failed")
	}
	charge := windowCharge(visitor(2), limit.SlidingWindow, 5, time.Hour, 1)
	l := c.limits
	if c.cluster != nil {
		l = c.cluster.shards[c.cluster.shard(&charge.Subject)]
	}
	_, at, err := l.TakeAt(ctx, now(), []limit.Charge{charge}, results)
	if err != nil {
		return err
	}
	return l.RefundAt(ctx, at, []limit.Charge{charge}, results)
}

// The ACL lines of the documentation are enough for what they are for, and the
// limiter's do not let it change overrides or publish.
func TestDocumentedACLs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	grant(t, []*redistest.Server{s})
	as := func(user string) *Client {
		return openWith(t, Config{Addrs: []string{"redis://" + user + ":pw@" + s.Addr()}, Namespace: "news"})
	}
	aggregator, limiter := as("hotparam-aggregator"), as("hotparam-limiter")
	ctx := context.Background()
	deliveries, _ := follow(t, limiter)
	changes := followOverrides(t, limiter)
	next(t, changes, "the empty list")
	publish(t, aggregator.Publisher("agg"), hot(now(), 1))
	next(t, deliveries, "hot set")
	put(t, aggregator.Overrides(), block("a", "topic?id=1", "ann"))
	next(t, changes, "override")
	eventually(t, "subscriptions", func() bool {
		return limiter.hot.subscriptions.Load() > 0 && limiter.overrides.subscriptions.Load() > 0
	})
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("ping", limiter.Ping(ctx))
	check("report", limiter.WriteReport(ctx, report("a", 1)))
	_, err := limiter.LiveLimiters(ctx)
	check("live limiters", err)
	_, err = aggregator.ReadReports(ctx)
	check("reports", err)
	check("delete", aggregator.Overrides().Delete(ctx, "a", "ann"))
	_, err = aggregator.Overrides().Audit(ctx, 1)
	check("audit", err)
	charge := limit.Charge{Subject: limit.Subject{Space: "hot", Name: "k"}, Cost: 1}
	for _, a := range []limit.Algorithm{
		limit.TokenBucket, limit.GCRA, limit.LeakyBucket, limit.FixedWindow, limit.AnchoredWindow, limit.SlidingWindow, limit.SlidingLog, limit.BucketedWindow,
	} {
		charge.Spec = limit.Spec{Algorithm: a, Limit: 1, Burst: 1, Window: time.Second, Buckets: 1}
		_, err = limiter.Limiter().Take(ctx, now(), []limit.Charge{charge}, make([]limit.Result, 1))
		check(string(a), err)
	}
	check("limits with all that goes beside them", everything(t, limiter))
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s as the limiter: %v", what, err)
		}
	}
	refused("another namespace", limiter.rdb.Get(ctx, "hp:{other}:hot:version").Err())
	refused("everything", limiter.rdb.FlushAll(ctx).Err())
	if s.Before(7, 0) {
		return // it has no keys that one may only read
	}
	_, err = limiter.Overrides().Put(ctx, block("b", "topic?id=1", "mallory"))
	refused("put", err)
	refused("publish", limiter.Publisher("x").Publish(ctx, hot(now(), 1)))
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if err := s.Client().ConfigSet(context.Background(), "requirepass", "s3cret").Err(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, "redis://:s3cret@"+s.Addr()+"/3").Ping(context.Background()); err != nil {
		t.Error(err)
	}
	for user, want := range map[string]string{"": "NOAUTH", ":wrong@": "WRONGPASS"} {
		if err := open(t, "redis://"+user+s.Addr()).Ping(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", user, err, want)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hp") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "r.sock")
	redistest.Start(t, "--unixsocket", socket)
	if err := open(t, "unix://"+socket).Ping(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := selfSigned(t, dir)
	port := freePort(t)
	redistest.Start(t, "--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"),
		"--tls-ca-cert-file", filepath.Join(dir, "cert.pem"))
	addr := net.JoinHostPort("127.0.0.1", port)
	c := openWith(t, Config{Addrs: []string{addr}, TLSConfig: &tls.Config{RootCAs: authority}, Namespace: "test"})
	deliveries, _ := follow(t, c)
	publish(t, c.Publisher("agg"), hot(now(), 2000))
	next(t, deliveries, "set through TLS")
	if err := open(t, "rediss://"+addr).Ping(context.Background()); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a certificate of an unknown authority: %v", err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}

// selfSigned writes a certificate for 127.0.0.1 and its key, and gives the pool
// that trusts it.
func selfSigned(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(cert)
	return pool
}
