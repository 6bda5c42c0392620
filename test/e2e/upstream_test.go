package e2e

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// tell answers with the protocol, host and target of a request as an upstream sees them.
func tell(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, r.Proto, r.Host, r.RequestURI)
}

// tellTLS starts an upstream with an authority of its own, which asks for a certificate and speaks HTTP/2. The flags
// configure the proxy for it.
func tellTLS(t *testing.T) (url string, flags []string) {
	t.Helper()
	up := httptest.NewUnstartedServer(http.HandlerFunc(tell))
	up.EnableHTTP2, up.TLS = true, &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	up.StartTLS()
	t.Cleanup(up.Close)
	key, err := x509.MarshalPKCS8PrivateKey(up.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := write(t, "cert.pem",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw})))
	private := write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	return up.URL, []string{
		"--proxy.upstream_tls_ca", cert, "--proxy.upstream_tls_name", "example.com",
		"--proxy.upstream_tls_cert", cert, "--proxy.upstream_tls_key", private,
	}
}

// The upstream sees the Host and the target that the client sent, for each protocol of the upstream, through both
// programs with a proxy. "//x" is not redirected.
func TestUpstream_ReceivesHostAndTarget(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(tell))
	t.Cleanup(plain.Close)
	h2c := httptest.NewUnstartedServer(http.HandlerFunc(tell))
	h2c.Config.Protocols = new(http.Protocols)
	h2c.Config.Protocols.SetUnencryptedHTTP2(true)
	h2c.Start()
	t.Cleanup(h2c.Close)
	secure, known := tellTLS(t)
	redis := redistest.Start(t)
	host := strings.TrimPrefix(plain.URL, "http://")
	for name, c := range map[string]struct {
		upstream string
		flags    []string
		want     string
	}{
		"http":          {plain.URL, nil, "HTTP/1.1 site.example //x/../y?id=1;2\n"},
		"upstream host": {plain.URL, []string{"--no-proxy.preserve_host"}, "HTTP/1.1 " + host + " //x/../y?id=1;2\n"},
		"h2c":           {"h2c" + strings.TrimPrefix(h2c.URL, "http"), nil, "HTTP/2.0 site.example //x/../y?id=1;2\n"},
		"https":         {secure, known, "HTTP/2.0 site.example //x/../y?id=1;2\n"},
	} {
		flags := append([]string{"--proxy.upstream", c.upstream, "--config", write(t, "hotparam.yaml", pipelineRules)},
			c.flags...)
		programs := map[string][]string{
			"hotparam":        append([]string{"serve", "--state.dir", t.TempDir()}, flags...),
			"limiter-sidecar": append([]string{"--redis.addr", redis.Addr(), "--decide.listen="}, flags...),
		}
		for program, args := range programs {
			t.Run(name+"/"+program, func(t *testing.T) { seenThrough(t, program, args, c.want) })
		}
	}
}

// seenThrough starts a program and asks it for a target as no client library would.
func seenThrough(t *testing.T, name string, args []string, want string) {
	t.Helper()
	t.Parallel()
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	launch(t, name, append(args, "--proxy.listen", addr, "--admin.listen", admin)...)
	ready(t, admin)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET //x/../y?id=1;2 HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || string(body) != want {
		t.Errorf("%d %q, %v; want %q", res.StatusCode, body, err, want)
	}
}
