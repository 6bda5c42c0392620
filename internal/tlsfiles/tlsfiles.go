// Package tlsfiles makes the TLS configuration of a client from PEM files: the authorities that it trusts and the
// certificate that it shows. It reads the files for each call and remembers nothing.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/hotparam/pipeline/internal/textfile"
)

// Files are the files of a client. The zero value trusts the system's authorities and shows no certificate.
type Files struct {
	// CA is the file with the certificates of the authorities to trust, or "" for the system's authorities.
	CA string `name:"tls_ca"`
	// Cert and Key are the files with the certificate to show and its key. Both are set, or neither is.
	Cert string `name:"tls_cert"`
	Key  string `name:"tls_key"`
	// ServerName is the name to expect in the server's certificate, or "" for the host that is dialled.
	ServerName string `name:"tls_server_name"`
}

// Client reads the files. Errors begin with setting and "ca" or "cert"; an example of setting is "redisclient: tls_".
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
