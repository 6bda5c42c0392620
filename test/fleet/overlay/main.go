// Overlay writes changed copies of some files of the local Go runtime, for "go test -overlay", with which a bubble of
// testing/synctest runs the same way each time:
//
//   - a bubble has random numbers of its own: for select, maps, package maphash, math/rand/v2 and the order of timers
//   - its goroutines are not preempted by the clock, do not go to the global queue, and no mutex is handed over by
//     real time
//   - a goroutine that waits for a mutex lets virtual time pass: nothing outside of the bubble holds one
//
// The process needs GOMAXPROCS=1 and GODEBUG=asyncpreemptoff=1 from the environment. A release of Go that has other
// texts in these places is an error that names the file.
//
//	go run ./fleet/overlay DIR     # writes DIR/overlay.json and the copies beside it
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: overlay DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
}

// change replaces the first occurrence of a text in a file of GOROOT/src.
type change struct{ file, old, new string }

var changes = []change{
	{"runtime/rand.go", "	globalRand.state.Init(*seed)\n", "	*seed = [32]byte{1: 1}\n	globalRand.state.Init(*seed)\n"},
	{"runtime/rand.go", "func rand() uint64 {\n", `func rand() uint64 {
	if gp := getg().m.curg; gp != nil && gp.bubble != nil {
		return gp.bubble.next()
	}
`},
	{"runtime/rand.go", "func mrandinit(", `// next is the next random number of a bubble (wyrand).
//
//go:nosplit
func (b *synctestBubble) next() uint64 {
	b.random += 0xa0761d6478bd642f
	hi, lo := math.Mul64(b.random, b.random^0xe7037ed1a0b428db)
	return hi ^ lo
}

// bubbleRand is cheaprand, from which the rest of the runtime draws too, where it is not a bubble's.
//
//go:nosplit
func bubbleRand() uint32 {
	if b := getg().bubble; b != nil {
		return uint32(b.next())
	}
	return cheaprand()
}

func mrandinit(`},
	{"runtime/synctest.go", "type synctestBubble struct {\n", "type synctestBubble struct {\n	random uint64\n"},
	{"runtime/synctest.go", "	gp.bubble = bubble\n	defer func", "	gp.bubble = bubble\n	gp.m.p.ptr().schedtick = 0\n	defer func"},
	{"runtime/time.go", "			t.rand = cheaprand()", "			t.rand = bubbleRand()"},
	{"runtime/select.go", "j := cheaprandn(uint32(norder + 1))",
		"j := uint32((uint64(bubbleRand()) * uint64(norder+1)) >> 32)"},
	{"runtime/sema.go", "s.ticket = cheaprand() | 1", "s.ticket = bubbleRand() | 1"},
	{"runtime/proc.go", "	} else {\n		lock(&sched.lock)\n		globrunqput(gp)\n		unlock(&sched.lock)\n	}\n\n	if mainStarted {",
		"	} else if gp.bubble != nil {\n		runqput(pp, gp, false)\n	} else {\n		lock(&sched.lock)\n" +
			"		globrunqput(gp)\n		unlock(&sched.lock)\n	}\n\n	if mainStarted {"},
	{"runtime/proc.go", "	runqput(mp.p.ptr(), gp, next)\n", "	runqput(mp.p.ptr(), gp, next && gp.bubble != nil)\n"},
	{"runtime/proc.go", "	if !inheritTime {\n		mp.p.ptr().schedtick++",
		"	if !inheritTime && gp.bubble != nil {\n		mp.p.ptr().schedtick++"},
	{"runtime/proc.go", "const forcePreemptNS = 10 * 1000 * 1000", "const forcePreemptNS = 1 << 62"},
	{"runtime/runtime2.go", "	waitReasonSyncCondWait:          true,\n", `	waitReasonSyncCondWait:     true,
	waitReasonSyncMutexLock:    true,
	waitReasonSyncRWMutexRLock: true,
	waitReasonSyncRWMutexLock:  true,
`},
	{"internal/sync/mutex.go", "starvationThresholdNs = 1e6", "starvationThresholdNs = 1e15"},
}

func write(dir string) error {
	out, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	texts := map[string]string{}
	for _, c := range changes {
		path := filepath.Join(strings.TrimSpace(string(out)), "src", filepath.FromSlash(c.file))
		if texts[path] == "" {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			texts[path] = string(text)
		}
		if !strings.Contains(texts[path], c.old) {
			return fmt.Errorf("%s of this release of Go does not have %q: change test/fleet/overlay/main.go", path, c.old)
		}
		texts[path] = strings.Replace(texts[path], c.old, c.new, 1)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range texts {
		copied := filepath.Join(dir, filepath.Base(path)+".txt") // no package of the module around
		if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
			return err
		}
		overlay.Replace[path] = copied
	}
	list, err := json.MarshalIndent(overlay, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o644)
}
