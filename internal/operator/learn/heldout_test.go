package learn

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/hotparam/pipeline/internal/operator/replay"
)

func inMemory(log []byte) Logs {
	return func() ([]replay.Source, error) {
		return []replay.Source{{Name: "access.log", Reader: bytes.NewReader(log)}}, nil
	}
}

// halves cuts a log between two lines.
func halves(log []byte) (first, second []byte) {
	at := len(log)/2 + bytes.IndexByte(log[len(log)/2:], '\n') + 1
	return log[:at], log[at:]
}

// judged learns from one log, enforces the proposal on another log, and returns the number of ordinary clients of the
// other log that would have been denied a request.
func judged(t *testing.T, from, on []byte) (p *Proposal, hurt, ordinary int64) {
	t.Helper()
	p, err := Learn(t.Context(), Config{}, inMemory(from))
	if err != nil {
		t.Fatal(err)
	}
	p.visitors = newVisitors() // for the visitors of the other log
	l := &learner{logs: inMemory(on)}
	if _, err := l.read(context.Background(), func(s *replay.Seen) {
		target, _ := s.Request.SplitTarget()
		p.visitors.add(s, isAsset(target))
	}); err != nil {
		t.Fatal(err)
	}
	p.visitors.classifyAll()
	_, h, err := p.replayEnforced(t.Context(), l, l.nextPassConfig(), 1)
	if err != nil {
		t.Fatal(err)
	}
	census := p.visitors.countKinds()
	return p, h.ordinary, census[person] + census[sharedAddress]
}

// Rules that are learned from the first half of a real log deny hardly any ordinary client of its second half.
func TestLearn_DeniesHardlyAnyOrdinaryClientOfOtherHalf(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("HOTPARAM_TRAFFIC")
	if dir == "" {
		t.Skip("HOTPARAM_TRAFFIC names no directory with real logs")
	}
	var logs []string
	for _, form := range []string{"*.log", "*.tsv"} {
		found, _ := filepath.Glob(filepath.Join(dir, form))
		logs = append(logs, found...)
	}
	if len(logs) == 0 {
		t.Fatalf("%s has no logs", dir)
	}
	for _, path := range logs {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			log, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			first, second := halves(log)
			for way, of := range map[string][2][]byte{"first half": {first, second}, "second half": {second, first}} {
				p, hurt, ordinary := judged(t, of[0], of[1])
				t.Logf("from the %s: %d of %d ordinary clients of the other half are hurt; %d rules", way, hurt,
					ordinary, p.Rules())
				if ordinary < 500 || 1000*hurt > 2*ordinary {
					t.Errorf("from the %s: %d of %d ordinary clients of the other half are hurt\n%s", way, hurt,
						ordinary, p.formatHeader()+p.formatConfig(enforce, 1))
				}
			}
		})
	}
}
