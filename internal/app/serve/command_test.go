package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// run runs cmd/serve with arguments until ctx ends.
func run(ctx context.Context, log *slog.Logger, args ...string) error {
	var c Command
	p, err := config.Build(&c, "serve", "", config.OneProcess())
	if err == nil {
		_, err = p.Parse(args)
	}
	if err != nil {
		return err
	}
	return c.RunTo(ctx, io.Discard, program.LocalOptions{Log: log, File: p})
}

// writeRules returns the path of a file with a rule and with settings.
func writeRules(t *testing.T, settings string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hotparam.yaml")
	const rule = "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 5}}]\n"
	if err := os.WriteFile(path, []byte(rule+settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCommand_RejectsSettingsThatNeedAServer checks that the error names the setting and the command that has it.
func TestCommand_RejectsSettingsThatNeedAServer(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context()) // a setting that is not rejected starts nothing that goes on
	end()
	for setting, args := range map[string][]string{
		"--rules":               {"--rules", "redis:"},
		"--redis.addr":          {"--redis.addr", "127.0.0.1:6379"},
		"--redis.password_file": {"--redis.password_file=secret"},
		"--etcd.addr":           {"--etcd.addr", "127.0.0.1:2379"},
		"--envoy.listen":        {"--config", writeRules(t, "envoy: {listen: '127.0.0.1:0'}\n")},
		"--envoy.limits":        {"--envoy.limits", "limits.yaml"},
	} {
		err := run(ended, slog.New(slog.DiscardHandler), append(args, "--upstream", "http://127.0.0.1:1",
			"--state.dir", t.TempDir(), "--listen", "127.0.0.1:0", "--admin.listen=")...)
		if !errors.Is(err, config.ErrUsage) ||
			!strings.Contains(err.Error(), setting+": this program runs in one process") ||
			!strings.Contains(err.Error(), "go run ./cmd/hotparam serve") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestCommand_ServesByAFileOfOtherPrograms states that settings of other programs in a file are ignored: serve answers,
// logs that it uses no Redis, and keeps its history.
func TestCommand_ServesByAFileOfOtherPrograms(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(upstream.Close)
	var log bytes.Buffer // read when serve has ended
	dir, addr, ended := t.TempDir(), freeport.Addr(t), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	handler := &untilServing{Handler: slog.NewTextHandler(&log, nil), serving: make(chan struct{})}
	file := writeRules(t, "redis: {addr: '127.0.0.1:1'}\nkafka: {brokers: '127.0.0.1:1'}\n"+
		"etcd: {addr: '127.0.0.1:1'}\n")
	go func() {
		ended <- run(ctx, slog.New(handler), "--config", file, "--upstream", upstream.URL, "--listen", addr,
			"--state.dir", dir, "--admin.listen=")
	}()
	select {
	case <-handler.serving:
	case err := <-ended:
		t.Fatalf("%v\n%s", err, &log)
	}
	answer, err := http.Get("http://" + addr + "/topic?id=1")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	history := filepath.Join(dir, "history")
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		if kept, _ := os.ReadDir(history); len(kept) > 0 {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil || answer.StatusCode != http.StatusTeapot {
		t.Errorf("%v, answered %d", err, answer.StatusCode)
	}
	if !strings.Contains(log.String(), "this program does not use redis.addr") {
		t.Errorf("the log says nothing of Redis:\n%s", &log)
	}
	if kept, err := os.ReadDir(history); len(kept) == 0 {
		t.Errorf("no history is kept: %v", err)
	}
}

// TestCommand_KeepsSecretsOfPasses serves by rules with a class of visitors: their secret is in the state directory,
// and not in the log.
func TestCommand_KeepsSecretsOfPasses(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer // read when serve has ended
	dir, ended := t.TempDir(), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file := writeRules(t, "classes: [{name: visitor, pass_age: 10s}]\n")
	go func() {
		ended <- run(ctx, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			"--config", file, "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--state.dir", dir,
			"--admin.listen=")
	}()
	var secrets []byte
	for began := time.Now(); len(secrets) == 0 && time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		secrets, _ = os.ReadFile(filepath.Join(dir, "pass-secrets.json"))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	found := regexp.MustCompile(`[A-Za-z0-9+/]{43}=`).Find(secrets)
	if len(found) == 0 || bytes.Contains(log.Bytes(), found) {
		t.Errorf("secret of %d bytes; or the log has it:\n%s", len(found), &log)
	}
}

// untilServing closes serving at the line that serve logs when its ports are open.
type untilServing struct {
	slog.Handler
	serving chan struct{}
}

func (h *untilServing) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Message == "serving" {
		close(h.serving)
	}
	return err
}
