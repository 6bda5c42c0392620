package program

import (
	"bytes"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
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

// memoryLimit is how many bytes this process may take: GOMEMLIMIT, or the memory of the machine; 0: it is unknown.
func memoryLimit() int64 {
	limit := min(debug.SetMemoryLimit(-1), machineMemory(os.DirFS("/")))
	if limit == math.MaxInt64 {
		return 0
	}
	return limit
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
