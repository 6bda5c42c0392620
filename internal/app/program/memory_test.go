package program

import (
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hotparam/pipeline/internal/app/config"
)

func TestMachineMemory_ReadsMachineAndContainer(t *testing.T) {
	t.Parallel()
	const meminfo, two, one = "proc/meminfo", "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
	for _, c := range []struct {
		files map[string]string
		want  int64
	}{
		{nil, math.MaxInt64},
		{map[string]string{meminfo: "MemTotal:       1000 kB\nMemFree: 1 kB\n"}, 1000 << 10},
		{map[string]string{meminfo: "MemTotal:       1000 kB\n", two: "max\n"}, 1000 << 10},
		{map[string]string{meminfo: "MemTotal:       1000 kB\n", two: "4096\n"}, 4096},
		{map[string]string{meminfo: "MemTotal:       1000 kB\n", one: "9223372036854771712\n"}, 1000 << 10},
		{map[string]string{one: "4096\n"}, 4096},
		{map[string]string{meminfo: "MemTotal: 99999999999999999 kB\n", two: ""}, math.MaxInt64},
		{map[string]string{meminfo: "MemTotal:"}, math.MaxInt64},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := machineMemory(root); got != c.want {
			t.Errorf("%v: %d, want %d", c.files, got, c.want)
		}
	}
}

// The collector's limit is 1.25 times the stated memory, plus 64 MiB and the ballast, and leaves a tenth to the
// machine.
func TestCollectorLimit_FollowsWhatIsStated(t *testing.T) {
	t.Parallel()
	const gib, rest = int64(1 << 30), 64<<20 + ballastSize
	for _, c := range []struct {
		tables  int64
		bounds  []int64
		machine int64
		want    int64
	}{
		{tables: gib, bounds: []int64{2 * gib, gib}, machine: math.MaxInt64, want: 5*gib + rest},
		{tables: gib, bounds: []int64{2 * gib, gib}, machine: 16 * gib, want: 5*gib + rest},
		{tables: gib, bounds: []int64{2 * gib, gib}, machine: 5000, want: 4500},
		{tables: gib, bounds: []int64{gib, 0}, machine: 5000, want: 4500},
		{tables: gib, bounds: []int64{gib, 0}, machine: math.MaxInt64, want: math.MaxInt64},
		{tables: gib, machine: math.MaxInt64, want: gib + gib/4 + rest},
	} {
		if got := collectorLimit(c.tables, c.bounds, c.machine); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestCheckCacheMemory_RejectsMoreThanMachine(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{64: "", 500: "", 501: "more than half", 1000: "more than half",
		1001: "cache_memory 1001 is more than the 1000 bytes"} {
		var said strings.Builder
		err := checkCacheMemory(bytes, 1000, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			said.WriteString(err.Error())
		}
		if (err != nil) != (bytes > 1000) || err != nil && !errors.Is(err, config.ErrUsage) ||
			!strings.Contains(said.String(), want) || want == "" && said.Len() > 0 {
			t.Errorf("%d: %v, %s", bytes, err, said.String())
		}
	}
}

func TestListeners_WarnOfFewFiles(t *testing.T) {
	t.Parallel()
	for files, warned := range map[int]bool{0: false, 1 << 40: true} {
		var said strings.Builder
		l := Listeners{files: files, log: slog.New(slog.NewTextHandler(&said, nil))}
		l.warnOfFewFiles()
		if strings.Contains(said.String(), "needed=1099511628032") != warned {
			t.Errorf("%d files: %s", files, said.String())
		}
	}
}
