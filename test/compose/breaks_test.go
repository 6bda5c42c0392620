package compose

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// broken is a service that fails, and the signs that have to report it.
type broken struct {
	service, how string // as `docker pause` or `docker kill`
	signs        []sign
}

type sign struct {
	says string
	seen func(t *testing.T, since time.Time) bool
}

func readiness(name string) sign {
	return sign{"`/readyz` of " + name, func(t *testing.T, _ time.Time) bool { return !ready(t, name) }}
}

func metric(name, metric, value string) sign {
	return sign{fmt.Sprintf("`%s` %s", metric, value),
		func(t *testing.T, _ time.Time) bool { return gauge(t, name, metric, value) }}
}

func line(name, text string) sign {
	return sign{fmt.Sprintf("log of %s: “%s”", name, text),
		func(t *testing.T, since time.Time) bool { return logged(t, name, text, since) }}
}

func status(name, of string) sign {
	return sign{fmt.Sprintf("page of %s: %s", name, of),
		func(t *testing.T, _ time.Time) bool { return page(t, name, of) }}
}

var (
	noRedis = []sign{
		line("limiter-sidecar-1", "shared store fails"), metric("limiter-sidecar-1", "hotparam_gate_store_open", "1"),
		status("limiter-sidecar-1", "breaker"), readiness("aggregator-1"),
	}
	noKafka = []sign{
		readiness("collector-1"), metric("collector-1", "hotparam_kafka_connected", "0"),
		status("collector-1", "kafka"), metric("aggregator-1", "hotparam_aggregate_no_input", "1"),
		readiness("aggregator-1"),
	}
	breaks = []broken{
		{"redis-1", "pause", noRedis},
		{"redis-1", "kill", noRedis},
		{"kafka-1", "pause", noKafka},
		{"kafka-1", "kill", append(noKafka, line("collector-1", "level=ERROR"))},
		{"aggregator-1", "kill", []sign{
			line("limiter-sidecar-1", "level=WARN"),
			metric("limiter-sidecar-1", "hotparam_hotset_stale_publishers", "1"),
			status("limiter-sidecar-1", "hot set"),
		}},
		{"collector-1", "kill", []sign{
			line("aggregator-1", "level=WARN"), metric("aggregator-1", "hotparam_aggregate_no_input", "1"),
			readiness("aggregator-1"),
			status("aggregator-1", "source kafka"),
		}},
		{"limiter-sidecar-2", "kill", []sign{
			line("gateway-1", "DOWN"),
			{"`/v1/hot`: 1 limiter", func(t *testing.T, _ time.Time) bool { return whatIsHot(t).Totals.Limiters == 1 }},
		}},
	}
)

var mend = map[string]string{"pause": "unpause", "kill": "start"}

// judge breaks the service, waits for every expected report, repairs it, waits until all is normal, and prints a row of
// the table of docs/runbook.md.
func (b broken) judge(t *testing.T) {
	began := time.Now()
	docker(t, b.how, container(b.service))
	said := make([]string, len(b.signs))
	defer func() {
		for i, s := range b.signs {
			if said[i] == "" {
				t.Logf("missing: %s", s.says)
			}
		}
	}()
	await(t, b.service+" "+b.how+": all signs", func() bool {
		missing := 0
		for i, s := range b.signs {
			switch {
			case said[i] != "":
			case s.seen(t, began):
				said[i] = fmt.Sprintf("%s (%.1f s)", s.says, time.Since(began).Seconds())
			default:
				missing++
			}
		}
		return missing == 0
	})
	docker(t, mend[b.how], container(b.service))
	again := await(t, b.service+" "+b.how+": all normal again", func() bool {
		return normal(t) && isViral(whatIsHot(t)) // else the next break concerns no limit
	})
	felt := second{}
	for _, s := range load(t, began) {
		felt.failed += s.failed
		felt.quietDenied += s.quietDenied
		felt.viralOK = max(felt.viralOK, s.viralOK)
	}
	t.Logf("| %s %s | %s | %d requests failed, %d of other topics refused, topic 4242 at most %d/s | %.1f s |",
		strings.TrimSuffix(b.service, "-1"), b.how, strings.Join(said, "; "), felt.failed, felt.quietDenied,
		felt.viralOK, again.Seconds())
}
