package program

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/app/config"
)

// A rate of 0 could mean no lines or no bound, so that it is refused; -1 means no bound. Without a log there is nothing
// to refuse.
func TestOpenDenials_RefusesRates(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "denials.log")
	for _, c := range []struct {
		to      string
		rate    int
		refused bool
	}{{path, 1, false}, {path, -1, false}, {path, 0, true}, {path, -2, true}, {"", 0, false}, {"", 100, false}} {
		l, err := OpenDenials(config.Denials{Log: c.to, Format: "json", Rate: c.rate}, slog.New(slog.DiscardHandler))
		switch {
		case c.refused:
			if !errors.Is(err, config.ErrUsage) || !strings.Contains(err.Error(), "or -1 for no bound") {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || (l == nil) != (c.to == ""):
			t.Errorf("%+v: %v, %v", c, l, err)
		case l != nil:
			l.Close()
		}
	}
}
