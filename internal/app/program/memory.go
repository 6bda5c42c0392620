package program

import (
	"bytes"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strconv"

	"github.com/hotparam/pipeline/internal/app/config"
)

// machineMemory is how many bytes the machine has, or the container if that may have less. It is
// math.MaxInt64 if it is unknown. root is the root directory, which has the figures on Linux.
func machineMemory(root fs.FS) int64 {
	all := int64(math.MaxInt64)
	if text, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		_, rest, _ := bytes.Cut(text, []byte("MemTotal:"))
		if fields := bytes.Fields(rest); len(fields) > 0 {
			all = atMost(all, fields[0], 1<<10)
		}
	}
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // cgroup 2 and 1; "max" is no number
		if text, err := fs.ReadFile(root, "sys/fs/cgroup/"+name); err == nil {
			all = atMost(all, bytes.TrimSpace(text), 1)
		}
	}
	return all
}

// atMost is the smaller of n and a number of units, or n where that is no number.
func atMost(n int64, number []byte, unit int64) int64 {
	m, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || m <= 0 || m > math.MaxInt64/unit {
		return n
	}
	return min(n, m*unit)
}

// environmentLimit is GOMEMLIMIT, or math.MaxInt64: what is set at the start, before LimitMemory.
var environmentLimit = debug.SetMemoryLimit(-1)

// memoryLimit is how many bytes this process may take: GOMEMLIMIT of its environment, or the memory of the machine; 0:
// it is unknown.
func memoryLimit() int64 {
	limit := min(environmentLimit, machineMemory(os.DirFS("/")))
	if limit == math.MaxInt64 {
		return 0
	}
	return limit
}

// Tables are the settings that bound what a program keeps besides connections.
type Tables struct {
	Cache  int64 // of responses
	Rules  int
	Gate   config.Gate
	Tally  config.Tally
	Detect config.Detect
}

// bytes returns an upper bound of the memory of the tables: Rules may become more without a restart, a subject has
// 300 bytes in a window, and queues of counts are the rest.
func (t Tables) bytes() int64 {
	const queues = 256 << 20
	return t.Cache + int64(t.Gate.MaxSubjects)*600 + int64(t.Tally.MaxKeys)<<10 +
		int64(t.Detect.Counters)*200*int64(max(t.Rules, 32)) + queues
}

// LimitMemory makes the collector work harder when the process takes more than its listeners and tables state. It comes
// after all listeners are open. GOMEMLIMIT in the environment goes before.
func (l *Listeners) LimitMemory(t Tables) {
	var bounds []int64
	for _, st := range l.stats() {
		bounds = append(bounds, st.MemoryBound)
	}
	if limit := collectorLimit(t.bytes(), bounds, machineMemory(os.DirFS("/"))); environmentLimit == math.MaxInt64 {
		debug.SetMemoryLimit(limit)
	}
}

// collectorLimit returns 1.25 times the sum of what is stated and 64 MiB, at most nine tenths of the machine's memory.
// A listener without a bound states nothing, and the machine's memory is the limit.
func collectorLimit(tables int64, bounds []int64, machine int64) int64 {
	most := machine
	if machine != math.MaxInt64 {
		most = machine / 10 * 9
	}
	if slices.Contains(bounds, 0) {
		return most
	}
	sum := tables
	for _, b := range bounds {
		sum += b
	}
	return min(sum+sum/4+64<<20+ballastSize, most) // the ballast counts as memory in use
}

// checkCacheMemory rejects a cache that the machine cannot hold, and warns of one that takes
// more than half of it: answers on their way to clients and the collector need room besides.
func checkCacheMemory(bytes, machine int64, log *slog.Logger) error {
	switch {
	case bytes > machine:
		return config.Usage("--proxy.cache_memory %d is more than the %d bytes of memory that this machine or "+
			"container has", bytes, machine)
	case bytes > machine/2:
		log.Warn("proxy.cache_memory is more than half of the memory of this machine or container; the process needs "+
			"about twice as much when the cache is full", "cache_memory", bytes, "memory", machine)
	}
	return nil
}
