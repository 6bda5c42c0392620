package statsd

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// A small receive buffer is logged with its size and the remedy.
func TestWarnSmallBuffer_LogsSizeAndRemedy(t *testing.T) {
	t.Parallel()
	for granted, said := range map[int64]bool{0: false, 212992: true, 8<<20 - 1: true, 8 << 20: false,
		16 << 20: false} {
		var log bytes.Buffer
		warnSmallBuffer(ListenerConfig{ReadBuffer: 16 << 20, Log: slog.New(slog.NewTextHandler(&log, nil))},
			"127.0.0.1:8125", granted)
		if got := strings.Contains(log.String(), "net.core.rmem_max=16777216"); got != said {
			t.Errorf("granted %d: said %q", granted, log.String())
		}
	}
}
