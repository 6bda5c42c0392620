package proxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// h2c is HTTP/2 without TLS, for servers and clients.
func h2c() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// writeProtocol answers for an upstream with the protocol, host, path and body of the request, and a trailer.
func writeProtocol(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "Grpc-Status")
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %s", r.Proto, r.Host, r.URL.Path, body)
	w.Header().Set("Grpc-Status", "0")
}

func TestProxy_SpeaksHTTP2WithoutTLS(t *testing.T) {
	t.Parallel()
	up := httptest.NewUnstartedServer(http.HandlerFunc(writeProtocol))
	up.Config.Protocols = h2c()
	up.Start()
	t.Cleanup(up.Close)
	to, err := url.Parse(strings.Replace(up.URL, "http:", "h2c:", 1))
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(gate{}, proxy.Config{Upstreams: map[string]*url.URL{"": to}, PreserveHost: true})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewUnstartedServer(p)
	front.Config.Protocols = h2c()
	front.Start()
	t.Cleanup(front.Close)
	tr := &http.Transport{Protocols: h2c()}
	t.Cleanup(tr.CloseIdleConnections)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/topic", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "site.example"
	res, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if string(body) != "HTTP/2.0 site.example /topic body" || res.ProtoMajor != 2 ||
		res.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%s %s, trailer %v", res.Proto, body, res.Trailer)
	}
}

// An upstream with an authority of its own, that asks who calls, over HTTP/2.
func TestProxy_CallsUpstreamWithTLS(t *testing.T) {
	t.Parallel()
	up := httptest.NewUnstartedServer(http.HandlerFunc(writeProtocol))
	up.EnableHTTP2 = true
	up.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	up.StartTLS()
	t.Cleanup(up.Close)
	to, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AddCert(up.Certificate())
	shown := up.TLS.Certificates
	known := &tls.Config{RootCAs: authority, ServerName: "example.com", Certificates: shown}
	for name, c := range map[string]struct {
		tls  *tls.Config
		want int
	}{
		"known and shown":   {known, http.StatusOK},
		"unknown authority": {&tls.Config{ServerName: "example.com", Certificates: shown}, http.StatusBadGateway},
		"another name": {&tls.Config{RootCAs: authority, ServerName: "other.test", Certificates: shown},
			http.StatusBadGateway},
		"without a certificate":  {&tls.Config{RootCAs: authority, ServerName: "example.com"}, http.StatusBadGateway},
		"the system's authority": {nil, http.StatusBadGateway},
	} {
		_, at := serve(t, proxy.Config{Upstreams: map[string]*url.URL{"": to}, PreserveHost: true, TLS: c.tls})
		status, body := get(t, at+"/topic", nil)
		want := "HTTP/2.0 " + strings.TrimPrefix(at, "http://") + " /topic "
		if status != c.want || c.want == http.StatusOK && body != want {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}
