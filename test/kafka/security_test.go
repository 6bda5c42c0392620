package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hotparam/pipeline/internal/tlsfiles"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// authority signs certificates and writes them as PEM files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.make("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
	return a
}

// make writes name.pem and name.key.
func (a *authority) make(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", secret)
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// server returns the settings of a broker that is called broker.test and asks for certificates of its authority.
func (a *authority) server() *tls.Config {
	a.make("broker", &x509.Certificate{DNSNames: []string{"broker.test"}})
	pair, err := tls.LoadX509KeyPair(a.path("broker.pem"), a.path("broker.key"))
	if err != nil {
		a.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: pool}
}

func TestConfig_ConnectsByTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.make("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	brokers := cluster(t, kfake.SeedTopics(2, topic), kfake.TLS(a.server())).ListenAddrs()
	good := kafka.TLS{Enabled: true, Files: tlsfiles.Files{CA: a.path("ca.pem"), Cert: a.path("client.pem"),
		Key: a.path("client.key"), ServerName: "broker.test"}}

	cfg := config(brokers)
	cfg.TLS = good
	in := &inbox{}
	consumer(t, in, kafka.ConsumerConfig{Config: cfg})
	p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
	counts, total := batch(100)
	_ = p.Send(t.Context(), counts)
	await(t, "all counts", func() bool { return in.total() == total })

	stranger := newAuthority(t)
	for name, test := range map[string]struct {
		change func(*kafka.TLS)
		says   string
	}{
		"plain":      {func(c *kafka.TLS) { *c = kafka.TLS{} }, "cannot reach brokers"},
		"unknown CA": {func(c *kafka.TLS) { c.CA = stranger.path("ca.pem") }, "set the file of the CA"},
		"wrong name": {func(c *kafka.TLS) { c.ServerName = "" }, "as the server name"},
		"no client":  {func(c *kafka.TLS) { c.Cert, c.Key = "", "" }, "certificate"},
		"wrong client": {func(c *kafka.TLS) {
			c.Cert, c.Key = stranger.path("ca.pem"), stranger.path("ca.key")
		}, "cert"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logTo
			cfg := config(brokers)
			cfg.TLS, cfg.Log = good, log.logger()
			test.change(&cfg.TLS)
			p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
			await(t, "the refusal", func() bool { return strings.Contains(log.String(), "level=ERROR") })
			if out := log.String(); !strings.Contains(out, test.says) || p.Stats().Connected != 0 {
				t.Errorf("log:\n%s", out)
			}
		})
	}
}

func TestConfig_RejectsWrongTLSFiles(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for name, test := range map[string]struct {
		tls  kafka.TLS
		says string
	}{
		"switched off": {kafka.TLS{Files: tlsfiles.Files{CA: a.path("ca.pem")}}, "not switched on"},
		"no CA":        {kafka.TLS{Enabled: true, Files: tlsfiles.Files{CA: a.path("none.pem")}}, "none.pem"},
		"no PEM":       {kafka.TLS{Enabled: true, Files: tlsfiles.Files{CA: a.path("ca.key")}}, "no certificate in"},
		"no key":       {kafka.TLS{Enabled: true, Files: tlsfiles.Files{Cert: a.path("ca.pem")}}, "go together"},
		"other key": {kafka.TLS{Enabled: true, Files: tlsfiles.Files{Cert: a.path("ca.pem"), Key: a.path("ca.pem")}},
			"ca.pem"},
	} {
		cfg := config([]string{"127.0.0.1:9092"})
		cfg.TLS = test.tls
		if _, err := kafka.NewProducer(kafka.ProducerConfig{Config: cfg}); err == nil ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfig_LogsInByEachMechanism(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			brokers := cluster(t, kfake.SeedTopics(2, topic), kfake.EnableSASL(),
				kfake.Superuser(mechanism, "hp", "secret")).ListenAddrs()
			cfg := config(brokers)
			cfg.Login = kafka.Login{Mechanism: mechanism, Username: "hp", Password: "secret"}
			in := &inbox{}
			consumer(t, in, kafka.ConsumerConfig{Config: cfg})
			p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
			counts, total := batch(100)
			_ = p.Send(t.Context(), counts)
			await(t, "all counts", func() bool { return in.total() == total })

			var log logTo
			cfg.Login.Password, cfg.Log = "mistaken", log.logger()
			producer(t, kafka.ProducerConfig{Config: cfg})
			await(t, "the refusal", func() bool { return strings.Contains(log.String(), "level=ERROR") })
			if out := log.String(); strings.Contains(out, "mistaken") ||
				!strings.Contains(out, "password is wrong") && !strings.Contains(out, "refuse username or password") {
				t.Errorf("log:\n%s", out)
			}
		})
	}
	cfg := config([]string{"127.0.0.1:9092"})
	cfg.Login = kafka.Login{Mechanism: "GSSAPI", Username: "hp", Password: "secret"}
	if _, err := kafka.NewProducer(kafka.ProducerConfig{Config: cfg}); err == nil {
		t.Error("an unknown mechanism is taken")
	}
}
