package fleet

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// The rules of TestReplay_FindsTheKeysOfTheLiveFleet have a path for each window, of seconds.
var windows = []int{1, 2, 5, 10}

const (
	thresholdRate = 200
	steadyFor     = 13 * time.Second
	lookEvery     = 500 * time.Millisecond // less than cooldown
)

func thresholdRules() string {
	text := "namespace: fleet\nrules:\n"
	for _, w := range windows {
		text += fmt.Sprintf("  - {name: w%d, match: {path: /w%[1]d}, params: [id], limit: {rate: 1000},\n"+
			"     hot: {rate: %[2]d, window: %[1]ds, cooldown: %[3]v, min_clients: 5}}\n", w, thresholdRate, cooldown)
	}
	return text
}

// TestReplay_FindsTheKeysOfTheLiveFleet requests keys that are a little below and above their threshold, steadily. The
// keys that are hot in limiters are the keys that a replay of the same requests finds: no key at 1 % below the
// threshold, every key at 1 % above it, whenever limiters flush, by each way and however long it takes.
func TestReplay_FindsTheKeysOfTheLiveFleet(t *testing.T) {
	defer watchTime(t)()
	for name, p := range map[string]*plan{
		"statsd":    {},
		"late":      {datagrams: Link{Jitter: 240 * time.Millisecond}},
		"collector": {collector: true, datagrams: Link{Jitter: 20 * time.Millisecond}},
		"kafka":     {kafka: true, link: Link{Jitter: 20 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			p.rules, p.limiters, p.clients = thresholdRules(), 3, 100
			var log []string
			hot := map[hottype.Key]bool{}
			synctest.Test(t, func(t *testing.T) { log = p.ask(t, hot) })
			slices.Sort(log)
			set := must(rules.Parse("rules.yaml", []byte(p.rules)))
			report, err := replay.Run(context.Background(), replay.Config{Rules: set},
				replay.Source{Name: "log", Reader: strings.NewReader(strings.Join(log, ""))})
			if err != nil {
				t.Fatal(err)
			}
			want := map[hottype.Key]bool{}
			for _, span := range report.Hot {
				want[span.Key] = true
			}
			if !maps.Equal(want, hot) {
				t.Errorf("replayed %v\nlive %v", slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(hot)))
			}
			for _, w := range windows {
				for percent, is := range map[int]bool{99: false, 101: true} {
					if key := hottype.Key(fmt.Sprintf("w%d?id=%d", w, percent)); hot[key] != is {
						t.Errorf("%s is hot: %v", key, hot[key])
					}
				}
			}
		})
	}
}

// ask has limiters asked for the keys of every window from 97 to 103 % of the threshold, records the hot ones, and
// returns the lines of a log of all requests.
func (p *plan) ask(t *testing.T, hot map[hottype.Key]bool) (log []string) {
	t.Helper()
	w := newWorld(p, 1, nil)
	time.Sleep(3*time.Second + 217*time.Millisecond) // virtual: receivers have reported, and no second begins
	var asking sync.WaitGroup
	logs := make(chan []string)
	for _, window := range windows {
		for percent := 97; percent <= 103; percent++ {
			go func() { logs <- w.askSteadily(window, percent, &asking) }()
		}
	}
	for range (steadyFor + 2*time.Second) / lookEvery {
		time.Sleep(lookEvery)
		passed.Add(1)
		for _, l := range w.limiters {
			for _, k := range l.Hot.Hot(time.Now()) {
				hot[k.Key] = true
			}
		}
	}
	for range 7 * len(windows) {
		log = append(log, <-logs...)
	}
	asking.Wait()
	w.stop()
	w.redis.close()
	return log
}

// askSteadily asks limiters for a key at a percentage of its threshold, and returns the lines of a log.
func (w *World) askSteadily(window, percent int, asking *sync.WaitGroup) (log []string) {
	random, began := rand.New(rand.NewPCG(uint64(window), uint64(percent))), time.Now()
	for i := 0; ; i++ {
		at := time.Duration(i) * time.Second * 100 / time.Duration(thresholdRate*percent)
		if at >= steadyFor {
			return log
		}
		time.Sleep(time.Until(began.Add(at.Truncate(time.Microsecond))))
		r, now, l := request("", uint32(i%w.plan.clients)), time.Now(), w.limiters[random.IntN(len(w.limiters))]
		r.Target = fmt.Sprintf("/w%d?id=%d", window, percent)
		asking.Go(func() { l.Gate.Decide(context.Background(), now, r) })
		log = append(log, fmt.Sprintf("%d.%06d\t%v\tGET\t%s\n", now.Unix(), now.Nanosecond()/1e3, r.Client.Addr,
			r.Target))
	}
}
