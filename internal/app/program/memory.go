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

// machineMemory returns the number of bytes of memory that the machine has, or that the container may take if that is
// less. It is math.MaxInt64 if unknown. root is the root directory, which has the figures on Linux.
func machineMemory(root fs.FS) int64 {
	all := int64(math.MaxInt64)
	if text, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		_, rest, _ := bytes.Cut(text, []byte("MemTotal:"))
		if fields := bytes.Fields(rest); len(fields) > 0 {
			all = atMost(all, fields[0], 1<<10)
		}
	}
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // cgroup 2 and 1; "max" is ignored
		if text, err := fs.ReadFile(root, "sys/fs/cgroup/"+name); err == nil {
			all = atMost(all, bytes.TrimSpace(text), 1)
		}
	}
	return all
}

// atMost returns the smaller of n and number times unit, or n if number is not a positive number.
func atMost(n int64, number []byte, unit int64) int64 {
	m, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || m <= 0 || m > math.MaxInt64/unit {
		return n
	}
	return min(n, m*unit)
}

// environmentLimit is GOMEMLIMIT at the start of the process, before LimitMemory, or math.MaxInt64 if it is not set.
var environmentLimit = debug.SetMemoryLimit(-1)

// memoryLimit returns the number of bytes that this process may take: GOMEMLIMIT of its environment or the memory of
// the machine if that is less. It returns 0 if both are unknown.
func memoryLimit() int64 {
	limit := min(environmentLimit, machineMemory(os.DirFS("/")))
	if limit == math.MaxInt64 {
		return 0
	}
	return limit
}

// Tables are the settings that bound the memory of a program beside its connections.
type Tables struct {
	Cache  int64 // of responses
	Rules  int
	Gate   config.Gate
	Tally  config.Tally
	Detect config.Detect
}

// memoryBound returns an upper bound of the memory of the tables. The number of rules may grow without a restart, a
// subject takes 300 bytes in a window, and the rest is for queues of counts.
func (t Tables) memoryBound() int64 {
	const queues = 256 << 20
	return t.Cache + int64(t.Gate.MaxSubjects)*600 + int64(t.Tally.MaxKeys)<<10 +
		int64(t.Detect.Counters)*200*int64(max(t.Rules, 32)) + queues
}

// LimitMemory makes the collector work harder when the process takes more memory than its listeners and tables need. It
// must be called after all listeners are open. GOMEMLIMIT in the environment takes precedence.
func (l *Listeners) LimitMemory(t Tables) {
	var bounds []int64
	for _, st := range l.statsByName() {
		bounds = append(bounds, st.MemoryBound)
	}
	if limit := collectorLimit(t.memoryBound(), bounds,
		machineMemory(os.DirFS("/"))); environmentLimit == math.MaxInt64 {
		debug.SetMemoryLimit(limit)
	}
}

// collectorLimit returns 1.25 times the sum of tables and bounds plus 64 MiB and the ballast, but no more than nine
// tenths of the machine's memory. If a listener has no bound (0), the limit is nine tenths of the memory.
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

// checkCacheMemory rejects a cache that the machine cannot hold, and warns of a cache that takes more than half of the
// memory, because responses on their way to clients and the collector need memory too.
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
