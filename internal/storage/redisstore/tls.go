package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// TLSFiles are certificates for the connection to Redis. Any of them asks for TLS. The
// files are read anew for every connection, so certificates may be renewed while
// programs run. The zero value trusts the system's authorities and shows no certificate.
type TLSFiles struct {
	// CA holds the trusted certificates (PEM); "": those of the system.
	CA string
	// Cert and Key are the certificate to show to the server (PEM), and its key.
	Cert, Key string
	// ServerName is the name to expect in the server's certificate; "": the host that
	// is dialled.
	ServerName string
}

// config reads the files. Errors name the setting.
func (f TLSFiles) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("redisstore: tls_ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redisstore: tls_ca: %s has no certificate in PEM", f.CA)
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("redisstore: tls_cert and tls_key belong together: set both or none")
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("redisstore: tls_cert, tls_key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// dial makes a connection with TLS. It reads the files each time.
func (f TLSFiles) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := f.config()
	if err != nil {
		return nil, err
	}
	conn, err := redis.NewDialer(&redis.Options{DialTimeout: dialTimeout, TLSConfig: c})(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, hint(err))
	}
	if err := greet(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the server ended the connection after the handshake: %w; "+
			"if it wants another certificate, set redis.tls_cert", err)
	}
	return conn, nil
}

// greet asks for one line. With TLS 1.3 a server refuses the client's certificate after the
// handshake, and who writes more by then may see a reset connection in place of the reason.
func greet(ctx context.Context, conn net.Conn) error {
	deadline, ok := ctx.Deadline()
	if end := time.Now().Add(dialTimeout); !ok || end.Before(deadline) {
		deadline = end
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	var b [1]byte
	for n := 0; b[0] != '\n'; n++ { // no buffer: what follows the line belongs to the client
		if _, err := conn.Read(b[:]); err != nil {
			return err
		}
		if n == 4096 {
			return errors.New("the server answers PING with a line that does not end")
		}
	}
	return conn.SetDeadline(time.Time{})
}

// hint says what to do about a handshake that failed; "" where nothing more can be said.
func hint(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var unreached *net.OpError
	switch {
	case errors.As(err, &unreached) && unreached.Op == "dial":
		return ""
	case errors.As(err, &authority):
		return "; set redis.tls_ca to the certificate of who signed the server's"
	case errors.As(err, &name):
		return "; set redis.tls_server_name to a name in the server's certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "; renew the server's certificate, or mend this machine's clock"
	case errors.As(err, &record), errors.Is(err, context.DeadlineExceeded):
		return "; is this a port without TLS?"
	}
	return ""
}
