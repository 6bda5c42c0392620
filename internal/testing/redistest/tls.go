package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// Authority signs certificates for tests. Its own certificate is in the file CA.
type Authority struct {
	t    testing.TB
	CA   string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority that no other test trusts.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, CA: filepath.Join(t.TempDir(), "ca.pem"), key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.CA, "CERTIFICATE", der)
	return a
}

// Certificate names the files of the certificate and the key of a server or client.
type Certificate struct{ Cert, Key string }

// Issue signs a certificate for names and addresses that ends at time until.
func (a *Authority) Issue(until time.Time, names ...string) Certificate {
	a.t.Helper()
	dir := a.t.TempDir()
	c := Certificate{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	a.IssueTo(c, until, names...)
	return c
}

// IssueTo replaces the certificate and key in the files of c by new ones.
func (a *Authority) IssueTo(c Certificate, until time.Time, names ...string) {
	a.t.Helper()
	key := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		Subject: pkix.Name{CommonName: "redistest party"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	writePEM(a.t, c.Cert, "CERTIFICATE", der)
	writePEM(a.t, c.Key, "PRIVATE KEY", private)
}

// Client returns the TLS configuration of a client that trusts the authority and has a certificate of its own.
func (a *Authority) Client() *tls.Config {
	a.t.Helper()
	files := a.Issue(time.Now().Add(time.Hour), "client")
	own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		a.t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(a.cert)
	return &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{own}}
}

// StartTLS runs a server that asks its clients for certificates of an authority, and returns the address at which it
// speaks TLS.
func StartTLS(t testing.TB, a *Authority, c Certificate, args ...string) (*Server, string) {
	t.Helper()
	port := strconv.Itoa(freeport.Port(t))
	s := Start(t, append([]string{
		"--tls-port", port, "--tls-auth-clients", "yes", "--tls-ca-cert-file", a.CA,
		"--tls-cert-file", c.Cert, "--tls-key-file", c.Key,
	}, args...)...)
	return s, net.JoinHostPort("127.0.0.1", port)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
