package redislimits

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// BenchmarkLimiterCallers measures many callers at once, with each decision in a call of its own ("alone") and in
// batches ("together"): the time of every 16th decision, the number of decisions in a call, and the CPU time that Redis
// and this process spend on one decision in all, reading and writing included.
func BenchmarkLimiterCallers(b *testing.B) {
	s := redistest.Start(b)
	for _, load := range []struct {
		name    string
		callers int
		each    int // how many different requests a caller makes
		request func(caller, call int) []limit.Charge
	}{
		{"hot", 1, 1, oneHotKey}, {"hot", 16, 1, oneHotKey}, {"hot", 64, 1, oneHotKey}, {"hot", 256, 1, oneHotKey},
		{"keys=10000", 64, 156, manyKeys}, {"three", 64, 1000, threeCharges},
	} {
		for _, how := range []string{"alone", "together"} {
			b.Run(fmt.Sprintf("%s/callers=%d/%s", load.name, load.callers, how), func(b *testing.B) {
				l := openLimiter(b, s.Addr())
				var store limit.Store = l
				if how == "alone" {
					store = singly{l}
				}
				warmUp(b, store, load.callers)
				s.Client().ConfigResetStat(context.Background())
				before := cpu(b, s)
				ours := ourCPU(b)
				took := drive(b, store, load.callers, load.each, load.request)
				b.StopTimer()
				slices.Sort(took)
				travel := l.batcher.stats.read()
				b.ReportMetric(float64(travel.Decisions)/float64(travel.Calls), "per-call")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1000, "k/s")
				b.ReportMetric(float64(took[len(took)/2])/1000, "p50-us")
				b.ReportMetric(float64(took[len(took)*99/100])/1000, "p99-us")
				b.ReportMetric((cpu(b, s)-before)*1e6/float64(b.N), "redis-us/op")
				b.ReportMetric(scriptTime(b, s)*float64(travel.Calls)/float64(b.N), "script-us/op")
				b.ReportMetric((ourCPU(b)-ours)*1e6/float64(b.N), "our-us/op")
			})
		}
	}
}

func oneHotKey(int, int) []limit.Charge { charges, _ := aRequest(); return openWide(charges[:1]) }

func manyKeys(caller, call int) []limit.Charge {
	charges := oneHotKey(caller, call)
	charges[0].Subject.Name = "topic?id=" + strconv.Itoa((caller*157+call)%10_000)
	return charges
}

// threeCharges returns the charges of a hot key and of one of a thousand clients.
func threeCharges(caller, call int) []limit.Charge {
	charges, _ := aRequest()
	n := (caller*31 + call) % 1000
	for i := range charges[1:] {
		charges[i+1].Subject.Client = hottype.ClientFromAddr(
			netip.AddrFrom4([4]byte{192, 0, byte(n / 250), byte(n % 250)}),
		)
	}
	return openWide(charges)
}

// openWide makes the limits allow everything, because a denial is cheaper.
func openWide(charges []limit.Charge) []limit.Charge {
	for i := range charges {
		charges[i].Spec.Limit, charges[i].Spec.Burst = 1_000_000, 1_000_000
		if charges[i].Spec.Algorithm == limit.TokenBucket {
			charges[i].Spec.Limit, charges[i].Spec.Burst, charges[i].Spec.Window = 1_000_000_000, 1_000_000_000,
				time.Second
		}
	}
	return charges
}

func warmUp(b *testing.B, l limit.Store, callers int) {
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if _, err := l.Take(context.Background(), time.Time{}, oneHotKey(0, 0),
				make([]limit.Result, 1)); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
}

// drive makes b.N calls from a number of callers, and returns some of their times.
func drive(b *testing.B, l limit.Store, callers, each int,
	request func(caller, call int) []limit.Charge) []time.Duration {
	var all sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	b.ReportAllocs()
	b.ResetTimer()
	for caller := range callers {
		all.Go(func() {
			mine := make([]time.Duration, 0, b.N/callers/16+1)
			requests := make([][]limit.Charge, each)
			for i := range requests {
				requests[i] = request(caller, i)
			}
			results := make([]limit.Result, len(requests[0]))
			for i := caller; i < b.N; i += callers {
				charges, began := requests[i/callers%len(requests)], time.Time{}
				sampled := i/callers%16 == 0
				if sampled {
					began = time.Now()
				}
				if _, err := l.Take(ctx, time.Time{}, charges, results); err != nil {
					b.Error(err)
					return
				}
				if sampled {
					mine = append(mine, time.Since(began))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	all.Wait()
	return took
}

// cpu returns the processor time that the server has used so far, in seconds.
func cpu(b *testing.B, s *redistest.Server) float64 {
	total := 0.0
	for line := range strings.Lines(s.Client().Info(context.Background(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			total += seconds
		}
	}
	return total
}

// ourCPU returns the processor time that this process has used so far, in seconds.
func ourCPU(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
