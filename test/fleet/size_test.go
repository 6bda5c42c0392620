package fleet

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var sizes = flag.String("sizes", "1/1/500,10/1/500,50/1/500,10/10/500,10/1/5000",
	"for TestSize: limiters/hot keys/clients, and more of these after commas")

// size is a fleet without faults, and its cost.
type size struct {
	limiters, hot, clients int

	cold, busy cost          // a second: while nothing is hot, and while keys are
	enforced   time.Duration // from the first request of the first hot key until all limiters hold it hot
	cpu        time.Duration // of all nodes, for a virtual second
	unshared   uint64        // windows that are not shared: more than 512 processes
}

// cost holds the number of commands that Redis executes, and of the bytes that it receives and sends.
type cost struct{ commands, in, out float64 }

func (c cost) minus(d cost, seconds float64) cost {
	return cost{(c.commands - d.commands) / seconds, (c.in - d.in) / seconds, (c.out - d.out) / seconds}
}

func (c cost) String() string {
	return fmt.Sprintf("%.0f commands, %.1f KB in, %.1f KB out", c.commands, c.in/1000, c.out/1000)
}

// TestSize measures fleets of several sizes. The cost of one limiter does not grow with the number of limiters.
func TestSize(t *testing.T) {
	defer watchTime(t)()
	var one *size
	for field := range strings.SplitSeq(*sizes, ",") {
		var s size
		if _, err := fmt.Sscanf(field, "%d/%d/%d", &s.limiters, &s.hot, &s.clients); err != nil {
			t.Fatalf("-sizes %s: %v", field, err)
		}
		t.Run(strings.ReplaceAll(field, "/", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { s.measure(t) })
		})
		t.Logf("%4d limiters, %d hot keys, %d clients: a second %v; hot %v; enforced everywhere after %v; %v CPU a second; "+
			"%d windows not shared", s.limiters, s.hot, s.clients, s.cold, s.busy, s.enforced.Round(time.Millisecond),
			s.cpu.Round(time.Millisecond), s.unshared)
		if one == nil {
			one = &s
		} else if s.hot == one.hot && s.clients == one.clients {
			s.compare(t, one)
		}
	}
}

// compare judges that the cost of a fleet is at most 1.2 times the cost of a smaller one in proportion to the limiters.
func (s *size) compare(t *testing.T, small *size) {
	t.Helper()
	more := 1.2 * float64(s.limiters) / float64(small.limiters)
	for _, c := range []struct {
		what        string
		here, there float64
	}{
		{"commands", s.cold.commands, small.cold.commands}, {"bytes in", s.cold.in, small.cold.in},
		{"bytes out", s.cold.out, small.cold.out},
		{"commands while keys are hot", s.busy.commands, small.busy.commands},
		{"bytes in while keys are hot", s.busy.in, small.busy.in},
		{"bytes out while keys are hot", s.busy.out, small.busy.out},
	} {
		if c.here > more*c.there {
			t.Errorf("%s grow faster than limiters: %.0f for %d, %.0f for %d", c.what, c.there, small.limiters, c.here,
				s.limiters)
		}
	}
	if s.enforced > findWithin {
		t.Errorf("%d limiters hold a key hot after %v", s.limiters, s.enforced)
	}
}

// measure runs ten seconds of cold keys, and then hot ones. Each limiter has at least five requests a second, and half
// a request a second of one client that visits all of them.
func (s *size) measure(t *testing.T) {
	const perLimiter, quiet, until = 5, 10 * time.Second, 22 * time.Second
	p := &plan{limiters: s.limiters, clients: s.clients, ipLimit: max(600, 2*s.limiters),
		viralFrom: quiet, viralTo: until, push: time.Hour,
		link:      Link{Delay: 200 * time.Microsecond, Jitter: time.Millisecond},
		datagrams: Link{Delay: 200 * time.Microsecond, Jitter: time.Millisecond},
		traffic: []traffic{{id: loop, only: -1, one: true,
			rate: func(time.Duration) float64 { return float64(s.limiters) / 2 }}},
	}
	each := max(perLimiter*float64(s.limiters)/2/float64(s.hot), 2*hotRate)
	for i := range s.hot {
		id := viral
		if i > 0 {
			id = fmt.Sprint(100 + i)
		}
		p.traffic = append(p.traffic, traffic{id: id, only: -1, rate: func(at time.Duration) float64 {
			if at < quiet {
				return 0
			}
			return each
		}})
	}
	w := newWorld(p, uint64(s.limiters), nil)
	began := processTime()
	w.drivePlan(1, perLimiter*float64(s.limiters)/2)
	var from cost
	for w.at() < until {
		time.Sleep(100 * time.Millisecond)
		passed.Add(1)
		switch now := w.at(); {
		case now == quiet-5*time.Second || now == quiet+5*time.Second:
			from = w.cost()
		case now == quiet-time.Second:
			s.cold = w.cost().minus(from, 4)
		case now == until:
			s.busy = w.cost().minus(from, (until - quiet - 5*time.Second).Seconds())
		case now > quiet && s.enforced == 0 && w.allHold(viral):
			s.enforced = now - quiet
		}
	}
	s.cpu = (processTime() - began) / time.Duration(until/time.Second)
	if s.enforced == 0 {
		t.Error("not all limiters hold the key hot")
	}
	for _, limiter := range w.limiters {
		s.unshared += limiter.Windows.Stats().Rejected
	}
	w.endTraffic()
	w.stop()
	w.redis.close()
	loud := slices.ContainsFunc(w.seen.warnings, func(w warning) bool { return strings.Contains(w.text, "not shared") })
	if loud != (s.unshared > 0) {
		t.Errorf("%d windows are not shared; logged: %v", s.unshared, loud)
	}
	for _, warn := range w.seen.warnings {
		if !strings.Contains(warn.text, "not shared") {
			t.Errorf("%s at %v: %s", warn.who, warn.at, warn.text)
		}
	}
}

// allHold reports whether all limiters hold a value hot.
func (w *World) allHold(id string) bool {
	return !slices.ContainsFunc(w.limiters, func(l *Limiter) bool {
		return l.Hot.Lookup([]byte(keyOf(id)), l.clock.now()) == nil
	})
}

// cost returns the cost of Redis so far.
func (w *World) cost() cost {
	in, out := w.net.streamBytes(redisNode)
	w.redis.mu.Lock()
	defer w.redis.mu.Unlock()
	return cost{float64(w.redis.commands), float64(in), float64(out)}
}

func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprint("getrusage: ", err))
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
