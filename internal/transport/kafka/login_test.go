package kafka

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/IBM/sarama"
)

// clientOf is a client with settings and nothing else.
type clientOf struct {
	sarama.Client
	settings *sarama.Config
}

func (c clientOf) Config() *sarama.Config { return c.settings }

// New connections send the password of the file, and the password from before while the file cannot be used. A client
// that logs in by PLAIN is opened again, because it sends the password of its opening.
func TestLogin_ReadsThePasswordOfItsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, mechanism := range []string{"", Plain, ScramSHA256, ScramSHA512} {
		write("first\n")
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		cfg, err := Config{Brokers: []string{"127.0.0.1:9092"}, Topic: "counts", Log: log,
			Login: Login{Mechanism: mechanism, Username: "hp", PasswordFile: path}}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		settings, err := cfg.saramaConfig()
		if err != nil {
			t.Fatal(err)
		}
		opened, isPlain := clientOf{settings: settings}, mechanism == "" || mechanism == Plain
		for _, step := range []struct {
			text, password string
			warned, stale  bool
		}{
			{"first", "first", false, false},
			{" second \n", "second", false, isPlain},
			{"", "second", true, false},
		} {
			write(step.text)
			out.Reset()
			password := cfg.Login.currentPassword(log)
			scram := settings.Net.SASL.SCRAMClientGeneratorFunc().(*scramClient)
			if stale := cfg.Login.isStale(opened); password != step.password || stale != step.stale ||
				scram.password != step.password {
				t.Errorf("%s, file %q: passwords %q and %q, stale %v", mechanism, step.text, password,
					scram.password, stale)
			}
			if said := out.String(); strings.Contains(said, "level=WARN") != step.warned ||
				strings.Contains(said, "second") {
				t.Errorf("%s, file %q: said %q", mechanism, step.text, said)
			}
		}
		if settings.Net.SASL.Password != "first" {
			t.Error("settings of a client changed while connections may read them")
		}
	}
}

// A file that cannot be used at the start, and a password beside it, are errors.
func TestLogin_RefusesFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, login := range map[string]Login{
		"keep one":              {Username: "hp", Password: "first", PasswordFile: path},
		"go together":           {PasswordFile: path},
		"password_file: open /": {Username: "hp", PasswordFile: path + "-of-nobody"},
	} {
		_, err := Config{Brokers: []string{"127.0.0.1:9092"}, Topic: "counts", Login: login}.withDefaults()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
