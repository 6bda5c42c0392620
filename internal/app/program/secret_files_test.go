package program

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/serving/auth"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/internal/textfile"
)

// A token is replaced without a gap: the file names the new one beside the old one, then the new one alone. A file that
// cannot be used changes nothing, and is reported until it can be used.
func TestSecretFiles_ReplaceTokensWithoutAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const before, after = "token-from-before", "token-that-comes-after"
		path := filepath.Join(t.TempDir(), "token")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		var log redistest.Log
		logged := ""
		said := func() string { // since the call before
			before := logged
			logged = log.String()
			return logged[len(before):]
		}
		s := newSecretFiles(log.Logger())
		s.hup = make(chan os.Signal) // signals of other tests stay outside
		guard := auth.NewGatewayGuard("check", before, slog.New(slog.DiscardHandler))
		s.addTokens("check.token", path, guard.ReplaceShared)
		status := func(token string) int {
			r := httptest.NewRequest(http.MethodGet, "/check", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			return guard.Check(r, time.Now()).Status
		}
		write(before)
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = s.Run(ctx) }()
		for _, step := range []struct {
			text        string
			says        string
			old, newest int
		}{
			{before, "", 0, 503},
			{before + "\n" + after + "\n", "tokens read again", 0, 0},
			{"short", "tokens not changed", 0, 0},
			{"", "is empty", 0, 0},
			{after + "\n" + before + "\n" + after + "-third", "has 3 lines", 0, 0},
			{after, "tokens read again", 503, 0},
		} {
			write(step.text)
			time.Sleep(2 * textfile.Settle)
			synctest.Wait()
			said := said()
			if step.says == "" && said != "" || !strings.Contains(said, step.says) || strings.Contains(said, after) {
				t.Errorf("file %q: said %q, want %q", step.text, said, step.says)
			}
			if a, b := status(before), status(after); a != step.old || b != step.newest {
				t.Errorf("file %q: the old token %d, the new one %d", step.text, a, b)
			}
			if valid := s.fileStats().Valid["check.token_file"]; valid != !strings.Contains(said, "level=ERROR") {
				t.Errorf("file %q: valid %v", step.text, valid)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * textfile.Settle)
		synctest.Wait()
		if said := said(); !strings.Contains(said, "no such file") || status(after) != 0 || status("") != 503 {
			t.Errorf("without a file: %s", said)
		}
		stop()
		synctest.Wait()
	})
}

// SIGHUP reads a file again that looks as it did before: the same file, length and time of its last change.
func TestSecretFiles_ReadAgainAtSIGHUP(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const before, after = "token-from-before", "token-that-is-new"
		path := filepath.Join(t.TempDir(), "token")
		changed := time.Now()
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, changed, changed); err != nil {
				t.Fatal(err)
			}
		}
		s := newSecretFiles(slog.New(slog.DiscardHandler))
		s.hup = make(chan os.Signal) // signals of other tests stay outside
		var tokens []string
		s.addTokens("check.token", path, func(read []string) bool {
			tokens = read
			return true
		})
		write(before)
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = s.Run(ctx) }()
		expect := func(step, want string) {
			t.Helper()
			time.Sleep(2 * textfile.Settle)
			synctest.Wait()
			if len(tokens) != 1 || tokens[0] != want {
				t.Errorf("%s: tokens %q, want %q", step, tokens, want)
			}
		}
		expect("at the start", before)
		write(after)
		expect("without a signal", before)
		s.hup <- syscall.SIGHUP
		expect("after the signal", after)
		stop()
		synctest.Wait()
	})
}
