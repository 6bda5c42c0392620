package filestore

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

// agreeOn returns the secrets on which a store agrees.
func agreeOn(t *testing.T, s *PassSecrets, proposals ...visitorpass.DaySecret) []visitorpass.DaySecret {
	t.Helper()
	agreed, err := s.AgreeOnSecrets(t.Context(), proposals)
	if err != nil {
		t.Fatal(err)
	}
	return agreed
}

func secretOf(day int64, b byte) visitorpass.DaySecret {
	return visitorpass.DaySecret{Day: day, Secret: visitorpass.Secret{b}}
}

// TestPassSecrets_OutliveTheProcess restarts a process, which then has the secrets from before, in a file that only its
// user may read.
func TestPassSecrets_OutliveTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for start := range 2 {
		o, err := OpenOverrides(dir)
		if err != nil {
			t.Fatal(err)
		}
		s := o.PassSecrets(slog.New(slog.DiscardHandler))
		first := agreeOn(t, s, visitorpass.DaySecret{Day: 6}, secretOf(7, byte(10+start)))
		if want := []visitorpass.DaySecret{secretOf(7, 10)}; !slices.Equal(first, want) {
			t.Errorf("start %d: another secret", start)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, passSecretsFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestPassSecrets_ForgetOldDays(t *testing.T) {
	t.Parallel()
	s := &PassSecrets{disk: dirDisk(t.TempDir())}
	agreeOn(t, s, secretOf(7, 1))
	agreeOn(t, s, visitorpass.DaySecret{Day: 7}, secretOf(8, 2))
	agreeOn(t, s, visitorpass.DaySecret{Day: 8}, secretOf(9, 3))
	again := &PassSecrets{disk: s.disk}
	got := agreeOn(t, again, secretOf(7, 4), secretOf(8, 4), secretOf(9, 4))
	if want := []visitorpass.DaySecret{secretOf(7, 4), secretOf(8, 2), secretOf(9, 3)}; !slices.Equal(got, want) {
		t.Error("not the secrets of the last two days are kept")
	}
}

func TestPassSecrets_StayInMemoryWithoutADirectory(t *testing.T) {
	t.Parallel()
	o := InMemory()
	s := o.PassSecrets(slog.New(slog.DiscardHandler))
	for b := range byte(2) {
		if got := agreeOn(t, s, secretOf(7, 1+b)); !slices.Equal(got, []visitorpass.DaySecret{secretOf(7, 1)}) {
			t.Error("another secret")
		}
	}
}

// TestPassSecrets_ReplaceADamagedFile reads damaged files: the log names the file and shows nothing of it.
func TestPassSecrets_ReplaceADamagedFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "null", `{"version":2,"secrets":{"7":"c2VjcmV0"}}`, `{"version":1}`,
		`{"version":1,"secrets":{"7":"c2VjcmV0"}}`, `{"version":1,"secrets":{"7":7}}`} {
		dir, log := t.TempDir(), &strings.Builder{}
		path := filepath.Join(dir, passSecretsFile)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := agreeOn(t, &PassSecrets{dirDisk(dir), slog.New(slog.NewTextHandler(log, nil)), nil}, secretOf(7, 1))
		again := agreeOn(t, &PassSecrets{disk: dirDisk(dir)}, secretOf(7, 2))
		if want := []visitorpass.DaySecret{secretOf(7, 1)}; !slices.Equal(got, want) || !slices.Equal(again, want) {
			t.Errorf("%q: not replaced", text)
		}
		if said := log.String(); !strings.Contains(said, path) || strings.Contains(said, "c2VjcmV0") {
			t.Errorf("%q: %s", text, said)
		}
	}
}

// TestPassSecrets_AreUsedWithoutADisk hands out secrets that cannot be written, and writes them later.
func TestPassSecrets_AreUsedWithoutADisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "later")
	s := &PassSecrets{disk: dirDisk(dir)}
	got, err := s.AgreeOnSecrets(t.Context(), []visitorpass.DaySecret{secretOf(7, 1)})
	if err == nil || !slices.Equal(got, []visitorpass.DaySecret{secretOf(7, 1)}) {
		t.Error(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	agreeOn(t, s, secretOf(7, 1))
	if again := agreeOn(t, &PassSecrets{disk: s.disk}, secretOf(7, 2)); !slices.Equal(again, got) {
		t.Error("not written")
	}
}
