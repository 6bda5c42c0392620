package kafka

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"github.com/hotparam/pipeline/internal/textfile"
	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// TLS configures encrypted connections to the brokers. Certificates are always checked, so that the CA is required.
type TLS struct {
	Enabled        bool // required if the files are set
	tlsfiles.Files      // read again at every connection
}

// clientConfig returns the TLS settings, or nil if TLS is off. Its errors name the file.
func (t TLS) clientConfig() (*tls.Config, error) {
	if !t.Enabled {
		if t != (TLS{}) {
			return nil, errors.New("kafka: TLS files or a server name are set, but TLS is not switched on")
		}
		return nil, nil
	}
	return t.Client("kafka: tls_")
}

// The mechanisms of a Login.
const (
	Plain       = sarama.SASLTypePlaintext
	ScramSHA256 = sarama.SASLTypeSCRAMSHA256
	ScramSHA512 = sarama.SASLTypeSCRAMSHA512
)

// Login holds the credentials for SASL. Without a Username there is no login.
type Login struct {
	// Mechanism is Plain (default; without TLS the password can be read), ScramSHA256 or ScramSHA512.
	Mechanism          string
	Username, Password string
	// PasswordFile, if set, is the path of a file with the password, which is read for new connections. While the file
	// cannot be used, the previous password is sent.
	PasswordFile string

	file *textfile.SecretFile // of PasswordFile, shared by all copies, or nil without one
}

// withFile returns the login with its file open to currentPassword.
func (l Login) withFile() Login {
	if l.PasswordFile != "" {
		l.file = &textfile.SecretFile{Path: l.PasswordFile}
	}
	return l
}

func (l Login) check() error {
	if !slices.Contains([]string{"", Plain, ScramSHA256, ScramSHA512}, l.Mechanism) {
		return fmt.Errorf("kafka: SASL mechanism %q must be %s, %s or %s", l.Mechanism, Plain, ScramSHA256,
			ScramSHA512)
	}
	if l.Password != "" && l.PasswordFile != "" {
		return errors.New("kafka: password and password_file are both set; keep one")
	}
	if (l.Username == "") != (l.Password+l.PasswordFile == "") {
		return errors.New("kafka: username and password go together, one of them is empty")
	}
	if l.file != nil {
		if _, err := l.file.Read(); err != nil {
			return fmt.Errorf("kafka: password_file: %w", err)
		}
	}
	return nil
}

// currentPassword returns the password to send now. It reads the file, if there is one.
func (l Login) currentPassword(log *slog.Logger) string {
	if l.file == nil {
		return l.Password
	}
	password, err := l.file.Read()
	if err != nil {
		log.Warn("kafka: the file of the password cannot be used; the password from before is sent", "err", err)
	}
	return password
}

// isStale reports whether the file has another password than the client, which must then be opened again, because the
// Kafka client sends the password of its settings with every login by PLAIN. SCRAM reads the file for each login.
func (l Login) isStale(client sarama.Client) bool {
	if l.file == nil || l.Mechanism == ScramSHA256 || l.Mechanism == ScramSHA512 {
		return false
	}
	password, err := l.file.Read()
	return err == nil && password != client.Config().Net.SASL.Password
}

func (l Login) apply(s *sarama.Config, log *slog.Logger) {
	if l.Username == "" {
		return
	}
	s.Net.SASL.Enable = true
	s.Net.SASL.User, s.Net.SASL.Password = l.Username, l.currentPassword(log)
	s.Net.SASL.Mechanism = sarama.SASLMechanism(cmp.Or(l.Mechanism, Plain))
	hash := scram.SHA256
	if l.Mechanism == ScramSHA512 {
		hash = scram.SHA512
	}
	s.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		return &scramClient{hash: hash, password: l.currentPassword(log)}
	}
}

// scramClient is one SCRAM exchange with the interface of the Kafka client; Begin is called first.
type scramClient struct {
	hash     scram.HashGeneratorFcn
	password string
	*scram.ClientConversation
}

// Begin begins the exchange with the current password instead of the password that was read when the client was opened.
func (s *scramClient) Begin(user, _, authzID string) error {
	client, err := s.hash.NewClient(user, s.password, authzID)
	if err != nil {
		return fmt.Errorf("kafka: SCRAM: %w", err)
	}
	s.ClientConversation = client.NewConversation()
	return nil
}

// remedyOf returns the remedy for an error of the other side or its certificate, or "" if it is unknown.
func remedyOf(err error) string {
	switch text := err.Error(); {
	case errors.As(err, new(x509.UnknownAuthorityError)),
		strings.Contains(text, "certificate signed by unknown authority"):
		return "; the authority that signed the brokers' certificates is not trusted: set the file of the CA"
	case errors.As(err, new(x509.HostnameError)):
		return "; give the name in the brokers' certificates as the server name"
	case errors.As(err, new(tls.RecordHeaderError)),
		strings.Contains(text, "first record does not look like a TLS handshake"):
		return "; this listener does not speak TLS"
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed):
		return "; the brokers refuse username or password"
	case errors.Is(err, io.EOF):
		return "; they hang up at once: this listener may need TLS or another login, or the password is wrong"
	case errors.Is(err, sarama.ErrUnsupportedSASLMechanism):
		return "; the brokers do not offer this SASL mechanism"
	case errors.Is(err, sarama.ErrFencedInstancedId):
		return "; another member of the group runs under the same instance name"
	case errors.Is(err, sarama.ErrInconsistentGroupProtocol):
		return "; a member of the group shares partitions in another way than cooperative-sticky: stop it, or use a group of our own"
	}
	return ""
}
