//go:build linux && !race

package cost

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/parseas"
)

const (
	// shortTargets targets of shortTarget bytes are as long together as one of longTarget, so that both fill the caches
	// of the processor alike.
	shortTargets, shortTarget = 8, 7_500
	longTarget                = shortTargets * shortTarget
	// A long target takes at most maxGrowth times as long as the short ones, and at most maxDearer times as long as
	// letters.
	maxGrowth, maxDearer = 1.2, 4
	// rounds bounds the number of measurements of a ratio until it holds, because the fastest of several calls is the
	// least disturbed.
	rounds = 300
)

// hostilePaths and hostileQueries are repeated to the length of a target. They are rich in characters that some
// upstream reads in a way of its own.
var (
	hostilePaths = []string{"/;", "a/../", "/..", "/", "/.", "/%2e%2e", "%41", "%0a", "%5c", "%", "\xff", "//;a",
		"x%0a/.", "/a.b", ";", "/topic.;x%2f%5c.."}
	hostileQueries = []string{"&", ";", ";id&", "[&", "id[&", "%5b=&", "[]=;", "]=[", "%", "+.&", "ID&", "a=%4;"}
)

// TestParsing_TakesLinearTime compares times of one run: no text makes parsing dear, in any preset. Paths are read in
// all ways of the preset; queries are as long as the greatest query_bounds.query_bytes allows.
func TestParsing_TakesLinearTime(t *testing.T) {
	for _, preset := range parseas.Presets() {
		traits, _ := parseas.Preset(preset)
		t.Run(preset, func(t *testing.T) {
			path := readPath(traits.Readings())
			compareTimes(t, "path", hostilePaths, path, path)
			compareTimes(t, "query", hostileQueries, path, readQuery(traits.Query))
		})
	}
}

func readPath(readings []parseas.Path) func(string) {
	var memory []byte
	return func(text string) {
		for i := range readings {
			memory = readings[i].Append(memory[:0], "/"+text)
		}
	}
}

func readQuery(syntax canon.QuerySyntax) func(string) {
	s := canon.NewSelector(canon.Selection{Names: []canon.Param{{Name: "id"}, {Name: "page"}}, Spelling: syntax})
	bounds, scratch, memory := canon.DefaultQueryBounds(), new(canon.Scratch), []byte(nil)
	bounds.QueryBytes = 1 << 20
	return func(text string) { memory, _ = s.Append(memory[:0], text, nil, &bounds, scratch) }
}

// compareTimes compares the times of read for texts of the pieces with each other, and with a path of letters.
func compareTimes(t *testing.T, what string, pieces []string, readPath, read func(string)) {
	letters := repeated("a", longTarget)
	for _, piece := range pieces {
		short, long := make([]string, shortTargets), repeated(piece, longTarget)
		for i := range short {
			short[i] = repeated(piece, shortTarget)
		}
		readShort := func(string) {
			for _, text := range short {
				read(text)
			}
		}
		var growth, dearer float64
		best := [3]time.Duration{time.Hour, time.Hour, time.Hour}
		for range rounds {
			best[0] = min(best[0], timeOf(t, readShort, ""))
			best[1] = min(best[1], timeOf(t, read, long))
			best[2] = min(best[2], timeOf(t, readPath, letters))
			growth = float64(best[1]) / float64(best[0])
			dearer = float64(best[1]) / float64(best[2])
			if growth <= maxGrowth && dearer <= maxDearer {
				break
			}
		}
		if growth > maxGrowth || dearer > maxDearer {
			t.Errorf("%s of %q: %d bytes take %v, %.2f times as long as in %d parts and %.1f times as long as letters",
				what, piece, longTarget, best[1], growth, shortTargets, dearer)
		}
	}
}

// timeOf returns the processor time of a call, without the time of other processes of the machine.
func timeOf(t *testing.T, read func(string), text string) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime(t)
	read(text)
	return threadTime(t) - start
}

// threadTime returns the processor time that the thread of the caller has taken.
func threadTime(t *testing.T) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

func repeated(piece string, n int) string { return strings.Repeat(piece, n/len(piece)) }
