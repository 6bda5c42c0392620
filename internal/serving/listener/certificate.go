package listener

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// TLS names the files of a listener's certificate. They are read again when they change.
type TLS struct {
	// Cert and Key are PEM files. Both are set, or neither.
	Cert, Key string
	// ClientCA, if set, holds the authorities (PEM) that sign the certificates which callers have to present.
	ClientCA string
}

func (t TLS) On() bool { return t != TLS{} }

// lookEvery is the shortest interval between two checks of the files. A check costs three stats.
const lookEvery = time.Second

// certificate holds the contents of a TLS's files when they were last valid. Handshakes and reads of the metrics check
// the files, so no goroutine runs for it.
type certificate struct {
	name  string
	files TLS
	log   *slog.Logger

	mu     sync.Mutex // guards the fields below
	config *tls.Config
	leaf   *x509.Certificate
	stamps string // of the files at the last check
	looked time.Time
	wrong  bool // the files are invalid, and their former contents stay in force
}

// newCertificate reads the files. setting is the prefix of the settings that name them, such as "proxy.".
func newCertificate(name, setting string, files TLS, log *slog.Logger) (*certificate, error) {
	if files.Cert == "" || files.Key == "" {
		return nil, fmt.Errorf("listener: %s: --%stls_cert and --%stls_key go together; set both", name, setting,
			setting)
	}
	c := &certificate{name: name, files: files, log: log, looked: time.Now()}
	c.stamps = files.fileStamps()
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("listener: %s: %w; see --%stls_cert", name, err, setting)
	}
	return c, nil
}

// handshakeConfig returns the configuration of a handshake.
func (c *certificate) handshakeConfig() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reloadIfChanged(time.Now())
	return c.config
}

// expiryState returns when the certificate expires, and reports whether the files are valid.
func (c *certificate) expiryState() (expires time.Time, right bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reloadIfChanged(time.Now())
	return c.leaf.NotAfter, !c.wrong
}

// reloadIfChanged reads the files again if they changed. Invalid files are logged and change nothing, because a file
// that is being written will be valid at a later check. The caller holds mu.
func (c *certificate) reloadIfChanged(now time.Time) {
	if now.Sub(c.looked) < lookEvery {
		return
	}
	c.looked = now
	stamps := c.files.fileStamps()
	if stamps == c.stamps {
		return
	}
	c.stamps = stamps
	err := c.load()
	c.wrong = err != nil
	if err != nil {
		c.log.Error("certificate cannot be used; the one from before goes on", "listener", c.name, "err", err)
		return
	}
	c.log.Info("certificate read again", "listener", c.name, "expires", c.leaf.NotAfter)
}

// load reads the files. On an error it changes nothing.
func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", c.files.Cert, c.files.Key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"},
	}
	if c.files.ClientCA != "" {
		if config.ClientCAs, err = tlsfiles.Authorities(c.files.ClientCA); err != nil {
			return err
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.config, c.leaf = config, pair.Leaf
	return nil
}

// fileStamps returns a text that changes when a file does.
func (t TLS) fileStamps() string {
	out := ""
	for _, path := range []string{t.Cert, t.Key, t.ClientCA} {
		if info, err := os.Stat(path); err == nil {
			out += fmt.Sprintln(info.ModTime().UnixNano(), info.Size())
		}
	}
	return out
}

// ClientTLS returns the configuration by which a program verifies the servers that it calls, and identifies itself to
// them. The certificate that it presents is read again when its files change. setting is the prefix of the settings
// that name the files, such as "proxy.upstream_".
func ClientTLS(setting string, files tlsfiles.Files, log *slog.Logger) (*tls.Config, error) {
	config, err := tlsfiles.Files{CA: files.CA, ServerName: files.ServerName}.Client("listener: --" + setting + "tls_")
	if err != nil {
		return nil, err
	}
	if pair := (TLS{Cert: files.Cert, Key: files.Key}); pair.On() {
		shown, err := newCertificate(setting+"tls_cert", setting, pair, log)
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &shown.handshakeConfig().Certificates[0], nil
		}
	}
	return config, nil
}
