package measure

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Cost holds the cost of one call.
type Cost struct {
	// Wall is the time divided by all calls of all callers, in ns: half of CPU for two callers on two cores that do not
	// hinder each other.
	Wall float64
	// CPU is CPU time of the whole process (collector included), in ns.
	CPU    float64
	Allocs float64
}

// batch is the number of calls between two readings of the clock.
const batch = 256

// Loop makes calls for about d from n goroutines. caller returns the function that goroutine i calls. The function is
// called a few thousand times first, unmeasured.
func Loop(n int, d time.Duration, caller func(i int) func()) Cost {
	var ready, done sync.WaitGroup
	var calls atomic.Int64
	start := make(chan struct{})
	var end time.Time // written before start is closed
	for i := range n {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			f := caller(i)
			for range 8 * batch {
				f()
			}
			ready.Done()
			<-start
			n := int64(0)
			for ; time.Now().Before(end); n += batch {
				for range batch {
					f()
				}
			}
			calls.Add(n)
		}()
	}
	ready.Wait()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := CPU(), time.Now()
	end = began.Add(d)
	close(start)
	done.Wait()
	wall, cpu := time.Since(began), CPU()-cpu
	runtime.ReadMemStats(&after)
	c := float64(max(calls.Load(), 1))
	return Cost{Wall: float64(wall) / c, CPU: float64(cpu) / c, Allocs: float64(after.Mallocs-before.Mallocs) / c}
}

// CPU returns the user and kernel CPU time that this process has used.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprintf("measure: getrusage of this process: %v", err)) // cannot happen
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
