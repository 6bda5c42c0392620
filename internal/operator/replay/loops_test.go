package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/operator/replay"
)

// One client alone requests id 1, thirty clients request id 2 at the same rate. Both
// are over the threshold, and only id 2 is viral.
func TestRun_DistinguishesLoopFromManyClients(t *testing.T) {
	t.Parallel()
	config := `
rules:
  - name: t
    match: {path: "/t"}
    params: [id]
    hot: {rate: 10, window: 1s, cooldown: 2s, min_clients: 5}
    limit: {algorithm: token_bucket, rate: 1, burst: 1}
`
	var log strings.Builder
	for i := range 90 {
		fmt.Fprintf(&log, "%d\t192.0.2.1\tGET\t/t?id=1\n", 1000000000+i/30)
		fmt.Fprintf(&log, "%d\t10.0.0.%d\tGET\t/t?id=2\n", 1000000000+i/30, i%30)
	}
	fmt.Fprint(&log, "1000000050\tc\tGET\t/t?id=3\n")
	rep, err := replay.Run(context.Background(), replay.Config{Rules: parse(t, config)}, text("log", log.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Hot) != 1 || rep.Hot[0].Key != "t?id=2" || rep.Hot[0].Clients < 8 || rep.Hot[0].ClientShare > 0.2 {
		t.Errorf("hot %+v", rep.Hot)
	}
	if len(rep.Loops) != 1 || rep.Loops[0].Key != "t?id=1" || rep.Loops[0].Client != "192.0.2.1" ||
		rep.Loops[0].ClientShare != 1 ||
		rep.Loops[0].From != 1000000000 || rep.Loops[0].Until < 1000000004 || rep.Loops[0].Until > 1000000006 {
		t.Errorf("loops %+v", rep.Loops)
	}
	for _, k := range rep.Keys {
		if denied := k.Denied > 0; denied != (k.Key == "t?id=2") {
			t.Errorf("%+v", k)
		}
	}
	if len(rep.HotSeconds[1000000001]) != 2 {
		t.Errorf("before min_clients both are over the threshold: %v", rep.HotSeconds)
	}
	var page bytes.Buffer
	if err := replay.Write(&page, rep, replay.Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if text := page.String(); !strings.Contains(text, "Loops: one or a few clients") {
		t.Error(text)
	}
}

// Ten clients make a key hot, and fifteen more come while it is hot: all of them count.
func TestRun_CountsClientsOfWholeSpan(t *testing.T) {
	t.Parallel()
	config := `
rules:
  - {name: t, match: {path: /t}, params: [id], hot: {rate: 10, window: 1s, cooldown: 5s}}
`
	var log strings.Builder
	for i := range 10 {
		fmt.Fprintf(&log, "1000000000\t10.0.0.%d\tGET\t/t?id=1\n", i)
	}
	for i := range 30 {
		fmt.Fprintf(&log, "%d\t10.0.1.%d\tGET\t/t?id=1\n", 1000000002+i/10, i/2)
	}
	rep, err := replay.Run(context.Background(), replay.Config{Rules: parse(t, config)}, text("log", log.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Hot) != 1 || rep.Hot[0].Clients < 15 || rep.Hot[0].ClientShare > 0.2 {
		t.Errorf("hot %+v", rep.Hot)
	}
}

// Without rules the report names the rule in force, the number of keys at other thresholds, and the command that finds
// better rules.
func TestWrite_WithoutRulesNamesTheNextStep(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 1300 {
		fmt.Fprintf(&log, "1000000000\t10.0.%d.%d\tGET\t/t?id=%d\n", i/250, i%250, min(i/1000, 1))
	}
	rep, err := replay.Run(context.Background(), replay.Config{}, text("log", log.String()))
	if err != nil {
		t.Fatal(err)
	}
	wanted := "hot from 500 requests a second over 5 s.\n" +
		"      keys  would be hot from\n         2  5/s\n         2  20/s\n         2  50/s\n         1  200/s\n         0  1,000/s\n" +
		"`hotparam learn` finds"
	for _, noRules := range []bool{true, false} {
		var page bytes.Buffer
		if err := replay.Write(&page, rep, replay.Options{NoRules: noRules}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(page.String(), wanted) != noRules {
			t.Error(page.String())
		}
	}
}

// Read visits the requests that Run judges, in the same order, with the headers that no rule reads.
func TestRead_VisitsAllRequests(t *testing.T) {
	t.Parallel()
	log := `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /b HTTP/1.1" 404 1 "http://r/" "agent"` + "\nbroken\n" +
		`192.0.2.2 - - [17/May/2015:10:05:01 +0000] "GET /a HTTP/1.1" - 1` + "\n"
	var seen []string
	rep, err := replay.Read(context.Background(), replay.Config{}, func(s *replay.Seen) {
		r := s.Request
		seen = append(seen, fmt.Sprint(s.At.Unix(), r.Client, r.Target, s.Status, r.Header.Get("Referer"),
			r.Header.Get("User-Agent")))
	}, text("log", log))
	if err != nil || rep.Requests != 2 || rep.Malformed != 1 || rep.First != 1431857101 || rep.Last != 1431857103 {
		t.Errorf("%+v, %v", rep, err)
	}
	if want := "[1431857101 192.0.2.2/a0 1431857103 192.0.2.1/b404http://r/agent]"; fmt.Sprint(seen) != want {
		t.Errorf("%v, want %s", seen, want)
	}
}
