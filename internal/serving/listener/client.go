package listener

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"
)

// ClientTLS names the files by which a program knows servers that it calls, and shows
// itself to them.
type ClientTLS struct {
	// Setting is the prefix of the settings that name the files, such as
	// "proxy.upstream_".
	Setting string
	// CA is a PEM file of the authorities that sign the servers' certificates; "" means
	// those that the system trusts.
	CA string
	// ServerName is a name in the servers' certificates; "" means their host.
	ServerName string
	// Cert and Key are PEM files, read again when they change; both or none.
	Cert, Key string
}

// Config reads the files.
func (c ClientTLS) Config(log *slog.Logger) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	var err error
	if c.CA != "" {
		if config.RootCAs, err = ReadCAs(c.CA); err != nil {
			return nil, fmt.Errorf("listener: --%stls_ca: %w", c.Setting, err)
		}
	}
	if files := (TLS{Cert: c.Cert, Key: c.Key}); files.On() {
		shown, err := newCertificate(c.Setting+"tls_cert", c.Setting, files, log)
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate = shown.forServer
	}
	return config, nil
}

// forServer gives the certificate to a server that asks for one.
func (c *certificate) forServer(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look(time.Now())
	return &c.config.Certificates[0], nil
}
