package redisclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// tlsSetting begins errors about the files, up to the name of a setting.
const tlsSetting = "redisclient: tls_"

// dialTLS returns a function that makes connections with TLS. It reads the files for each connection, so certificates
// may be renewed while programs run. A handshake ends within a time, and then the error names the reason.
func dialTLS(files tlsfiles.Files,
	within time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := files.Client(tlsSetting)
		if err != nil {
			return nil, err
		}
		conn, err := redis.NewDialer(&redis.Options{DialTimeout: within, TLSConfig: c})(ctx, network, addr)
		if err != nil {
			return nil, fmt.Errorf("%w%s", err, remedyOf(err))
		}
		if err := pingServer(ctx, conn); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("the server ended the connection after the handshake: %w; "+
				"if it wants another certificate, set redis.tls_cert", err)
		}
		return conn, nil
	}
}

// pingServer sends PING and reads one line. With TLS 1.3 a server refuses the client's certificate after the handshake,
// and a client that writes more by then may see a reset connection in place of the reason.
func pingServer(ctx context.Context, conn net.Conn) error {
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
	for n := 0; b[0] != '\n'; n++ { // no buffer: bytes after the line belong to the client
		if _, err := conn.Read(b[:]); err != nil {
			return err
		}
		if n == 4096 {
			return errors.New("the server answers PING with a line that does not end")
		}
	}
	return conn.SetDeadline(time.Time{})
}

// remedyOf returns the remedy for a failed handshake, or "" if it is unknown.
func remedyOf(err error) string {
	var invalid x509.CertificateInvalidError
	var unreached *net.OpError
	switch {
	case errors.As(err, &unreached) && unreached.Op == "dial":
		return ""
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "; set redis.tls_ca to the certificate of the authority that signed the server's"
	case errors.As(err, new(x509.HostnameError)):
		return "; set redis.tls_server_name to a name in the server's certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "; renew the server's certificate, or correct this machine's clock"
	case errors.As(err, new(tls.RecordHeaderError)), errors.Is(err, context.DeadlineExceeded):
		return "; is this a port without TLS?"
	}
	return ""
}
