package main

import (
	"context"
	"testing"
	"time"
)

// The status equals the status of the command, and the load ends with the command.
func TestRun_EndsWithItsCommand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		command []string
		want    int
		fails   bool
	}{
		{[]string{"true"}, 0, false}, {[]string{"sh", "-c", "exit 3"}, 3, false},
		{[]string{"sh", "-c", "kill $$"}, 1, false}, {nil, 0, true}, {[]string{"/no/such/program"}, 0, true},
	} {
		if got, err := run(t.Context(), 1, tt.command); got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%v: %d, %v, want %d", tt.command, got, err, tt.want)
		}
	}
}

// An interrupt ends the command.
func TestRun_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if got, err := run(ctx, 1, []string{"sleep", "600"}); got == 0 && err == nil {
		t.Error("an interrupted command has ended well")
	}
}
