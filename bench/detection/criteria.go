package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/detection/detect"
)

// criteria are the rules by which each situation is judged.
var criteria = []struct{ name, hot string }{
	{"rate", "rate: 200"},
	{"share", "share: 0.2, min_rate: 20"},
	{"surge", "surge: 10, min_rate: 20"},
	{"min_clients", "rate: 200, min_clients: 10"},
}

// situation is one key among others. The key has its past for before seconds before the situation begins.
type situation struct {
	name   string
	before int // seconds
	lasts  int // seconds
	past   float64
	// rate returns the rate of the key at a number of seconds after the beginning.
	rate func(seconds float64) float64
	// clients share the requests evenly; loop is the rate of one more client on top of them.
	clients int
	loop    float64
	others  float64 // requests per second of other keys
}

// outcome holds the verdicts of the criteria on a situation, in their order.
type outcome struct {
	Situation string   `json:"situation"`
	Said      []string `json:"said"`
	// Track holds the key's requests per second, for a picture of the situation.
	Track []float64 `json:"track,omitempty"`
}

func steady(rate float64) func(float64) float64 { return func(float64) float64 { return rate } }

// situations returns the uses of the criteria, each with a case that another criterion misses.
func situations() []situation {
	slow := func(s float64) float64 { return 2 * math.Pow(20, min(1, s/3600)) }
	return []situation{
		{name: "a topic of a busy site goes viral: 5 to 600/s, 3000 clients", past: 5, rate: steady(600), clients: 3000,
			others: 20_000},
		{name: "at night: 60 of 150 requests/s, always", past: 60, rate: steady(60), clients: 60, others: 90},
		{name: "a small key rises 20 times: 2 to 40/s", past: 2, rate: steady(40), clients: 40, others: 20_000},
		{name: "the same rise over an hour", past: 2, rate: slow, clients: 40, others: 400, lasts: 4000},
		{name: "always busy: 300/s", past: 300, rate: steady(300), clients: 1000, others: 20_000},
		{name: "one client in a loop: 300/s", past: 1, rate: steady(1), clients: 5, loop: 299, others: 20_000},
		{name: "a loop of 300/s on top of 250/s of many clients", past: 5, rate: steady(250), clients: 500, loop: 300,
			others: 20_000},
		{name: "eight clients: 300/s together", past: 1, rate: steady(300), clients: 8, others: 20_000},
	}
}

// judgeSituation plays a situation to a rule of each criterion.
func judgeSituation(s situation) outcome {
	o := outcome{Situation: s.name}
	if s.before == 0 {
		s.before = 120
	}
	if s.lasts == 0 {
		s.lasts = 30
	}
	for _, c := range criteria {
		o.Said = append(o.Said, s.play(c.hot))
	}
	for second := -trackFrom; second < s.lasts; second++ {
		at := s.past
		if second >= 0 {
			at = s.rate(float64(second)) + s.loop
		}
		o.Track = append(o.Track, at)
	}
	return o
}

const subject = hottype.Key("topic?id=subject")

// play returns the times at which a rule first calls the key hot, and a loop.
func (s situation) play(hot string) string {
	d := detect.New(topicRule(fmt.Sprintf("%s, window: %ds", hot, window)), detect.Options{})
	var owed, looped float64
	asked := 0
	var said []string
	for tick := -s.before * ticks; tick < s.lasts*ticks; tick++ {
		now := start.Add(time.Duration(tick) * time.Second / ticks)
		rate, loop := s.past, 0.0
		if tick >= 0 {
			rate, loop = s.rate(float64(tick)/ticks), s.loop
		}
		owed, looped = owed+rate/ticks, looped+loop/ticks
		counts := s.otherKeys(now.Unix(), tick)
		if c, ok := s.counted(&owed, &looped, &asked, now.Unix()); ok {
			counts = append(counts, c)
		}
		d.AddAll(now, counts)
		_, changes := d.Tick(now.Add(time.Second/ticks - 1))
		for _, c := range changes {
			if c.Hot.Key != subject || c.Kind != detect.BecameHot && c.Kind != detect.LoopBegan {
				continue
			}
			if tick < 0 {
				return "hot already"
			}
			said = append(said, words[c.Kind]+" after "+strconv.FormatFloat(float64(tick+1)/ticks, 'f', 1, 64)+" s")
		}
	}
	if len(said) == 0 {
		return "no"
	}
	return strings.Join(said, ", ")
}

var words = map[detect.Kind]string{detect.BecameHot: "hot", detect.LoopBegan: "loop"}

// counted returns the key's count in a tick, with its clients.
func (s situation) counted(owed, looped *float64, asked *int, second int64) (hottype.Count, bool) {
	c := hottype.Count{Key: subject, Second: second, Clients: &hottype.ClientSketch{}}
	for ; *owed >= 1; *owed-- {
		*asked++
		clientsketch.Add(c.Clients, hottype.Client{Name: "client " + strconv.Itoa(*asked%s.clients)}, 1)
		c.N++
	}
	if n := int64(*looped); n > 0 {
		clientsketch.Add(c.Clients, hottype.Client{Name: "loop"}, n)
		*looped -= float64(n)
		c.N += n
	}
	return c, c.N > 0
}

// otherKeys returns the counts of the other keys, ten requests a second each, all in one tick.
func (s situation) otherKeys(second int64, tick int) (counts []hottype.Count) {
	keys := int(s.others / 10)
	for k := ((tick % ticks) + ticks) % ticks; k < keys; k += ticks {
		counts = append(counts, hottype.Count{Key: hottype.Key("topic?id=" + strconv.Itoa(k)), N: 10, Second: second})
	}
	return counts
}
