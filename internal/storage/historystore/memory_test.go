package historystore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// The files answer every question as lists in memory do, also if the program began again meanwhile.
func TestStore_AnswersAsAModelDoes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	file, stop := runStore(t, Config{Dir: t.TempDir(), Keys: 4})
	memory := newMemory(4)
	hot := map[hottype.Key]history.Event{}
	event := func(e history.Event) { file.Event(e); memory.Event(e) }
	events := 0
	before := 0 // written by an earlier run, without repeated events
	for minute := range 150 {
		for second := 0; second < 60; second += 7 {
			at := noon.Add(time.Duration(60*minute+second) * time.Second)
			s := history.Second{At: at, Allowed: 3, Denied: 1, DeniedBy: map[string]float64{"hot": 1}}
			for i := range 8 {
				states := []string{history.Cold, history.Loop, history.Hot}
				costs := []hottype.Cost{"", "", "", hottype.CostTime} // as if the rule were changed each second
				s.Keys = append(s.Keys, history.KeySecond{Key: hottype.Key(fmt.Sprintf("topic?id=%d", i)), Rule: "topic",
					Cost:  costs[random.IntN(len(costs))],
					State: states[random.IntN(3)], Rate: float64(random.IntN(100)),
					Denied:  history.Requests(random.IntN(5)),
					Clients: 7})
			}
			file.Second(&s)
			memory.Second(&s)
		}
		at := noon.Add(time.Duration(minute)*time.Minute + 30*time.Second)
		key := hottype.Key(fmt.Sprintf("topic?id=%d", minute%5))
		if _, ok := hot[key]; ok {
			event(cooledEvent(at, key))
			delete(hot, key)
		} else {
			hot[key] = hotEvent(at, key)
			event(hot[key])
		}
		events++
		awaitWritten(t, file, uint64(minute+events-before))
		if minute%40 == 39 {
			stop()
			file, stop = runStore(t, file.cfg)
			for _, e := range hot {
				file.Event(e)
			}
			before = minute + 1 + events - len(hot)
			awaitWritten(t, file, uint64(len(hot)))
		}
	}
	for range 200 {
		from := noon.Add(time.Duration(random.IntN(9000)) * time.Second)
		q := history.Query{From: from, To: from.Add(time.Duration(1+random.IntN(9000)) * time.Second),
			Limit: 1 + random.IntN(300)}
		if random.IntN(2) == 0 {
			q.Key = hottype.Key(fmt.Sprintf("topic?id=%d", random.IntN(6)))
		}
		if diff := cmp.Diff(memory.Read(q), read(t, file, q)); diff != "" {
			t.Fatalf("%+v: %s", q, diff)
		}
		h := history.HeatmapQuery{From: from.Truncate(time.Minute), To: q.To, Keys: 1 + random.IntN(9),
			Step: []time.Duration{time.Minute, 10 * time.Minute}[random.IntN(2)]}
		if diff := cmp.Diff(memory.Heatmap(h), heatmap(t, file, h.From, h.To, h.Step, h.Keys)); diff != "" {
			t.Fatalf("%+v: %s", h, diff)
		}
	}
	removed, err := file.Purge(t.Context(), "topic?id=1")
	rows := memory.Purge("topic?id=1")
	if err != nil || rows == 0 || rows != removed {
		t.Errorf("memory purged %d rows, the files %d, %v", rows, removed, err)
	}
}
