// Package tlsfiles makes the TLS configuration of a client from PEM files: whom it
// trusts and what it shows. It reads each time it is asked and remembers nothing.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/hotparam/pipeline/internal/textfile"
)

// Files are those of a client. The zero value trusts the system's authorities and
// shows no certificate.
type Files struct {
	// CA holds the certificates of the authorities to trust; "": those of the system.
	CA string `name:"tls_ca"`
	// Cert and Key are the certificate to show and its key; both or none.
	Cert string `name:"tls_cert"`
	Key  string `name:"tls_key"`
	// ServerName is the name to expect in the server's certificate; "": the host that
	// is dialled.
	ServerName string `name:"tls_server_name"`
}

// Client reads the files. Errors begin with setting and "ca" or "cert"; such a
// setting is "redisclient: tls_".
func (f Files) Client(setting string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	var err error
	if f.CA != "" {
		if c.RootCAs, err = Authorities(f.CA); err != nil {
			return nil, fmt.Errorf("%sca: %w", setting, err)
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, fmt.Errorf("%scert: certificate and key go together; set both or none", setting)
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("%scert: certificate %s with key %s: %w", setting, f.Cert, f.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func Authorities(path string) (*x509.CertPool, error) {
	data, err := textfile.Read(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", path)
	}
	return pool, nil
}
