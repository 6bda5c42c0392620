package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

const replayRules = `
namespace: e2e
rules:
  - {name: w1, match: {path: /w1}, params: [id], hot: {rate: 100, window: 1s, cooldown: 2s, min_clients: 5}, limit: {rate: 9000}}
  - {name: w2, match: {path: /w2}, params: [id], hot: {rate: 100, window: 2s, cooldown: 2s, min_clients: 5}, limit: {rate: 9000}}
  - {name: w5, match: {path: /w5}, params: [id], hot: {rate: 100, window: 5s, cooldown: 2s, min_clients: 5}, limit: {rate: 9000}}
`

const (
	asksFor  = 8 * time.Second
	askEvery = 20 * time.Millisecond
	asks     = 45 // of each second, which leaves its end free: a request that arrives a little later is still in it
	// tooLate is the delay of this process, or of an answer, from which a threshold may be met by chance.
	tooLate = 60 * time.Millisecond
)

// TestReplay_FindsHotKeysOfSidecars asks two sidecars for keys from 97 to 103 % of their threshold, each key in equal
// parts of every second. A replay of the same requests has the same hot keys. One of three rounds has to show it,
// because the aggregator may read a datagram too late while other tests take the processor.
func TestReplay_FindsHotKeysOfSidecars(t *testing.T) {
	t.Parallel()
	redis, config := redistest.Start(t), write(t, "hotparam.yaml", replayRules)
	counts, admin := freeport.Addr(t), freeport.Addr(t)
	launch(t, "aggregator", "--config", config, "--redis.addr", redis.Addr(), "--statsd.listen", counts,
		"--admin.listen", admin)
	ready(t, admin)
	var sidecars [2]string
	for i := range sidecars {
		sidecars[i], admin = freeport.Addr(t), freeport.Addr(t)
		launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis.Addr(), "--statsd.addr", counts,
			"--decide.listen", sidecars[i], "--admin.listen", admin)
		ready(t, admin)
		program.Await(t, time.Minute, "a report of what arrives", func() bool {
			return metric(t, admin, "hotparam_statsd_loss_ratio") == "0"
		})
	}
	for round := 1; ; round++ {
		k := newSteadyKeys(round)
		seen := watchKeys(t, redis, append(k.keys, k.ends[:]...)...)
		late := k.ask(t, sidecars)
		for i, end := range k.ends { // the counts of a sidecar arrive in order
			program.Await(t, time.Minute, "the last counts", func() bool {
				decide(t, sidecars[i], slices.Repeat([]string{end}, 200), 0)
				return seen.found(end)
			})
		}
		wrong := k.compare(t, config, seen, late)
		t.Logf("round %d, late by %v at most: %s", round, late, wrong)
		if wrong == "" {
			return
		}
		if round == 3 {
			t.Fatal("live and replay differ in each round")
		}
	}
}

// compare reports the keys that are hot only live or only in a replay.
func (k *steadyKeys) compare(t *testing.T, config string, seen *watch, late time.Duration) (wrong string) {
	t.Helper()
	first, last := replayed(t, config, &k.sent), replayed(t, config, &k.answered)
	for _, key := range k.keys {
		if live := seen.found(key); first[key] == last[key] && live != first[key] {
			wrong += fmt.Sprintf("%s is hot: %v, replayed %v\n", key, live, first[key])
		}
		if percent := k.percent[key]; late < tooLate && percent != 100 && first[key] != (percent > 100) {
			wrong += fmt.Sprintf("%s is hot in a replay: %v\n", key, first[key])
		}
	}
	return wrong
}

// steadyKeys are the keys of one round.
type steadyKeys struct {
	keys           []string
	percent        map[string]int
	ends           [2]string       // far above their threshold, one for each sidecar
	sent, answered strings.Builder // logs of when each request was sent, and of when all of its call were answered
}

func newSteadyKeys(round int) *steadyKeys {
	k := &steadyKeys{percent: map[string]int{}}
	for i := range k.ends {
		k.ends[i] = fmt.Sprintf("w1?id=%d-end-%d", round, i)
	}
	for _, window := range []int{1, 2, 5} {
		for percent := 97; percent <= 103; percent++ {
			key := fmt.Sprintf("w%d?id=%d-%d", window, round, percent)
			k.keys, k.percent[key] = append(k.keys, key), percent
		}
	}
	return k
}

// ask returns the maximum delay of a call or of its answer.
func (k *steadyKeys) ask(t *testing.T, sidecars [2]string) (late time.Duration) {
	t.Helper()
	begin := time.Now().Truncate(time.Second).Add(time.Second)
	for second := range int(asksFor / time.Second) {
		for i := range asks {
			due := begin.Add(time.Duration(second)*time.Second + time.Duration(i)*askEvery)
			time.Sleep(time.Until(due))
			var keys []string
			for _, key := range k.keys {
				n := (i+1)*k.percent[key]/asks - i*k.percent[key]/asks
				keys = append(keys, slices.Repeat([]string{key}, n)...)
			}
			sent := time.Now()
			decide(t, sidecars[i%2], keys, i)
			answered := time.Now()
			late = max(late, sent.Sub(due), answered.Sub(sent))
			for n, key := range keys {
				fmt.Fprintf(&k.sent, "%s\t%s\tGET\t/%s\n", stamp(sent), visitor(i+n), key)
				fmt.Fprintf(&k.answered, "%s\t%s\tGET\t/%s\n", stamp(answered), visitor(i+n), key)
			}
		}
	}
	return late
}

// decide asks a sidecar for keys in one call, each by another visitor, from the first on.
func decide(t *testing.T, sidecar string, keys []string, first int) {
	t.Helper()
	checks := make([]string, len(keys))
	for n, key := range keys {
		checks[n] = fmt.Sprintf(`{"method":"GET","uri":"/%s","ip":"%s"}`, key, visitor(first+n))
	}
	status, text := do(t, http.MethodPost, "http://"+sidecar+"/v1/decide", "["+strings.Join(checks, ",")+"]",
		http.Header{"Content-Type": {"application/json"}})
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
}

func visitor(n int) string { return fmt.Sprintf("192.0.2.%d", n%250) }

func stamp(at time.Time) string { return fmt.Sprintf("%d.%06d", at.Unix(), at.Nanosecond()/1e3) }

// replayed returns the keys that become hot in a replay of a log.
func replayed(t *testing.T, config string, log fmt.Stringer) map[string]bool {
	t.Helper()
	p := launch(t, "hotparam", "replay", "--config", config, "--format", "events", "-o", "json",
		write(t, "requests.log", log.String()))
	if code := p.Wait(20 * time.Second); code != 0 {
		t.Fatalf("exit %d: %s", code, p.Said())
	}
	var report struct{ Hot []struct{ Key string } }
	_, text, _ := strings.Cut("\n"+p.Said(), "\n{") // below the warnings of the rules
	if err := json.NewDecoder(strings.NewReader("{" + text)).Decode(&report); err != nil {
		t.Fatalf("%v in %s", err, p.Said())
	}
	hot := map[string]bool{}
	for _, span := range report.Hot {
		hot[span.Key] = true
	}
	return hot
}
