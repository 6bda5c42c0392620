package listener

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// files are the files of one listener's certificate.
type files struct {
	dir  string
	pair tls.Certificate
}

func newFiles(t *testing.T) *files { return &files{dir: t.TempDir()} }

// write puts a new certificate for name into the files, which also authorises callers
// if they are to show one.
func (f *files) write(t *testing.T, name string, callers bool) TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	if f.pair, err = tls.X509KeyPair(cert, private); err != nil {
		t.Fatal(err)
	}
	out := TLS{Cert: filepath.Join(f.dir, "cert.pem"), Key: filepath.Join(f.dir, "key.pem")}
	f.replace(t, "cert.pem", cert)
	f.replace(t, "key.pem", private)
	if callers {
		out.ClientCA = filepath.Join(f.dir, "ca.pem")
		f.replace(t, "ca.pem", cert)
	}
	return out
}

func (f *files) replace(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificateName returns the name in the certificate that a listener presents.
func certificateName(t *testing.T, s *Server, show ...tls.Certificate) (string, error) {
	t.Helper()
	c := tls.Client(dial(t, s), &tls.Config{InsecureSkipVerify: true, Certificates: show})
	if err := c.HandshakeContext(t.Context()); err != nil {
		return "", err
	}
	// With TLS 1.3 the rejection of a certificate comes with the first answer.
	if exchange(c, plainGet) == "" {
		return "", net.ErrClosed
	}
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// said is the log of a listener.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestCertificate_IsReadAgain(t *testing.T) {
	t.Parallel()
	f, log := newFiles(t), new(said)
	s, _ := start(t, func(c *Config) {
		c.TLS, c.Log = f.write(t, "one", false), slog.New(slog.NewTextHandler(log, nil))
	})
	show := func() string {
		name, err := certificateName(t, s)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	if got := show(); got != "one" || !s.Stats().Certificate.Valid || s.Stats().Certificate.Expires.Before(time.Now()) {
		t.Fatalf("%s, %+v", got, s.Stats().Certificate)
	}
	f.replace(t, "cert.pem", []byte("half a certificate"))
	await(t, "the wrong file to be seen", func() bool { return !s.Stats().Certificate.Valid })
	if got := show(); got != "one" || strings.Count(log.String(), "cannot be used") != 1 ||
		!strings.Contains(log.String(), "cert.pem") {
		t.Errorf("with a wrong file: %s, and said %s", got, log)
	}
	f.write(t, "two", false)
	await(t, "the new certificate", func() bool { return show() == "two" })
	if !s.Stats().Certificate.Valid || !strings.Contains(log.String(), "certificate read again") {
		t.Errorf("%+v, and said %s", s.Stats().Certificate, log)
	}
}

func TestClientCA_RequiresCertificate(t *testing.T) {
	t.Parallel()
	ours, strangers := newFiles(t), newFiles(t)
	s, _ := start(t, func(c *Config) { c.TLS = ours.write(t, "ours", true) })
	strangers.write(t, "strangers", false)
	if name, err := certificateName(t, s); err == nil {
		t.Errorf("without a certificate: %s", name)
	}
	if name, err := certificateName(t, s, strangers.pair); err == nil {
		t.Errorf("with a stranger's: %s", name)
	}
	if _, err := certificateName(t, s, ours.pair); err != nil {
		t.Errorf("with ours: %v", err)
	}
}

func TestListen_RejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	good := f.write(t, "one", true)
	f.replace(t, "empty.pem", nil)
	for says, files := range map[string]TLS{
		"set both":             {Cert: good.Cert},
		"--proxy.tls_cert and": {ClientCA: good.ClientCA},
		"no such file":         {Cert: good.Cert, Key: "/no/such.pem"},
		"see --proxy.tls_cert": {Cert: good.Key, Key: good.Key},
		"empty.pem holds no certificate in": {Cert: good.Cert, Key: good.Key,
			ClientCA: filepath.Join(f.dir, "empty.pem")},
	} {
		s, err := Listen(t.Context(), Config{Name: "proxy", Addr: "127.0.0.1:0", TLS: files,
			Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", files, err, says)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}

// A server that asks for a certificate sees the one that the files hold now.
func TestClientTLS_PresentsCurrentCertificate(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	names := f.write(t, "first", false)
	files := tlsfiles.Files{CA: names.Cert, ServerName: "up.example", Cert: names.Cert, Key: names.Key}
	config, err := ClientTLS("x.", files, slog.New(slog.DiscardHandler))
	if err != nil || config.ServerName != "up.example" || config.RootCAs == nil {
		t.Fatalf("%+v, %v", config, err)
	}
	shown := func() string {
		pair, err := config.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.Subject.CommonName
	}
	if name := shown(); name != "first" {
		t.Errorf("shows %q at first", name)
	}
	f.write(t, "second, of another length", false)
	await(t, "the new certificate", func() bool { return shown() != "first" })
}

func TestClientTLS_RejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	names := newFiles(t).write(t, "x", false)
	for want, files := range map[string]tlsfiles.Files{
		"--x.tls_ca: open /none":           {CA: "/none"},
		"holds no certificate in PEM form": {CA: names.Key},
		"--x.tls_cert and --x.tls_key":     {Cert: names.Cert},
		"see --x.tls_cert":                 {Cert: names.Cert, Key: "/none"},
	} {
		if _, err := ClientTLS("x.", files, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", files, err, want)
		}
	}
}
