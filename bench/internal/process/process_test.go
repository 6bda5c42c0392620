package process

import (
	"syscall"
	"testing"
	"time"
)

func TestFreeze_ReturnsWhenTheProgramStandsStill(t *testing.T) {
	p, err := Start(t.Context(), nil, "sh", "-c", "while :; do :; done")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	before := used(t, p)
	time.Sleep(100 * time.Millisecond)
	if after := used(t, p); after != before {
		t.Errorf("it used %v while it was frozen", after-before)
	}
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for used(t, p) == before {
		time.Sleep(10 * time.Millisecond)
	}
}

func used(t *testing.T, p *Process) time.Duration {
	t.Helper()
	d, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	return d
}
