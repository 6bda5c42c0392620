package redisclient

import (
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// soon returns the time at which the certificates of tests end.
func soon() time.Time { return time.Now().Add(time.Hour) }

// A server has an authority of its own, and clients show certificates. Matching clients connect; for all others the
// error names the reason and the setting that mends it.
func TestDialTLS_NamesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	ours, other := redistest.NewAuthority(t), redistest.NewAuthority(t)
	client := ours.Issue(soon(), "client")
	_, addr := redistest.StartTLS(t, ours, ours.Issue(soon(), "127.0.0.1"))
	plain, expired := redistest.StartTLS(t, ours, ours.Issue(time.Now().Add(-time.Hour), "127.0.0.1"))
	_, named := redistest.StartTLS(t, ours, ours.Issue(soon(), "redis.internal"))
	good := tlsfiles.Files{CA: ours.CA, Cert: client.Cert, Key: client.Key}
	with := func(change func(*tlsfiles.Files)) tlsfiles.Files {
		f := good
		change(&f)
		return f
	}
	foreign := other.Issue(soon(), "client")
	for _, tt := range []struct {
		name  string
		addr  string
		files tlsfiles.Files
		want  string // "": it connects
	}{
		{"what fits", addr, good, ""},
		{"a name of its own", named, with(func(f *tlsfiles.Files) { f.ServerName = "redis.internal" }), ""},
		{"no authority", addr, with(func(f *tlsfiles.Files) { f.CA = "" }), "unknown authority; set redis.tls_ca"},
		{"another authority", addr, with(func(f *tlsfiles.Files) { f.CA = other.CA }), "set redis.tls_ca"},
		{"another name", named, good, "set redis.tls_server_name"},
		{"an expired certificate", expired, good, "renew the server's certificate"},
		{"no certificate of the client", addr, tlsfiles.Files{CA: ours.CA}, "certificate"},
		{"a certificate of somebody else", addr, with(func(f *tlsfiles.Files) {
			f.Cert, f.Key = foreign.Cert, foreign.Key
		}), "certificate"},
		{"a port without TLS", plain.Addr(), good, "is this a port without TLS?"},
	} {
		timeout := time.Minute
		if tt.addr == plain.Addr() {
			timeout = redistest.Patience // the handshake lasts for half of it
		}
		c := openWith(t, Config{Addrs: []string{tt.addr}, TLSFiles: tt.files, Namespace: "test", Timeout: timeout})
		err := c.Ping(t.Context())
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
		if in := c.Inspect(t.Context()); tt.want != "" && !strings.Contains(in.Err, tt.want) {
			t.Errorf("%s: inspection says %q", tt.name, in.Err)
		}
	}
}

// Certificates are renewed while the program runs: connections made later use them.
func TestDialTLS_ReadsFilesForEachConnection(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	client := a.Issue(time.Now().Add(-time.Hour), "client") // has expired
	_, addr := redistest.StartTLS(t, a, a.Issue(soon(), "127.0.0.1"))
	c := openWith(t, Config{Addrs: []string{addr}, Namespace: "test",
		TLSFiles: tlsfiles.Files{CA: a.CA, Cert: client.Cert, Key: client.Key}})
	if err := c.Ping(t.Context()); err == nil {
		t.Fatal("a certificate that has expired is accepted")
	}
	a.IssueTo(client, soon(), "client")
	redistest.Eventually(t, "a connection with the new certificate", func() bool { return c.Ping(t.Context()) == nil })
}

// A client without TLS learns that the port may want it.
func TestClient_ExplainsATLSPort(t *testing.T) {
	t.Parallel()
	ours := redistest.NewAuthority(t)
	_, addr := redistest.StartTLS(t, ours, ours.Issue(soon(), "127.0.0.1"))
	err := open(t, addr).Ping(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is this a port with TLS? Then set redis.tls") {
		t.Error(err)
	}
}
