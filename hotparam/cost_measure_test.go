package hotparam_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
)

// The middleware measures time, bytes and fields of responses, and a hot key has its rate in units of the cost.
func TestCost_IsMeasuredByMiddleware(t *testing.T) {
	t.Parallel()
	type measure struct {
		rule    string
		handler http.HandlerFunc
		leaves  time.Duration // of clients, after so long
		rate    float64       // of requests
		want    float64       // rate of the hot key, or 0 if it is cold
		shown   bool          // clients get X-Cost
	}
	writes := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for range n / 1000 {
				_, _ = w.Write(make([]byte, 1000))
			}
		}
	}
	sleeps := func(d time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(d)
			w.WriteHeader(http.StatusOK)
		}
	}
	reports := func(cost string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Cost", cost)
			_, _ = w.Write([]byte("x"))
		}
	}
	for name, c := range map[string]measure{
		"time":                   {rule: "cost: time, hot: {rate: 1s}", handler: sleeps(400 * time.Millisecond), rate: 5, want: 2},
		"little time":            {rule: "cost: time, hot: {rate: 1s}", handler: sleeps(10 * time.Millisecond), rate: 50},
		"time of slow readers":   {rule: "cost: time, hot: {rate: 1s}", handler: streams(2 * time.Second), rate: 5},
		"time of one request":    {rule: "cost: time, hot: {rate: 500ms}", handler: sleeps(time.Minute), rate: 0.02, want: 1},
		"clients that leave":     {rule: "cost: time, hot: {rate: 1s}", handler: sleeps(400 * time.Millisecond), leaves: 50 * time.Millisecond, rate: 5, want: 2},
		"bytes":                  {rule: "cost: bytes, hot: {rate: 150kB}", handler: writes(100_000), rate: 2, want: 200_000},
		"few bytes":              {rule: "cost: bytes, hot: {rate: 1MB}", handler: writes(100_000), rate: 2},
		"field":                  {rule: "cost: response.X-Cost, hot: {rate: 20}", handler: reports("12.5"), rate: 2, want: 25},
		"field that is shown":    {rule: "cost: response.X-Cost, show_cost: true, hot: {rate: 20}", handler: reports("12.5"), rate: 2, want: 25, shown: true},
		"field that is no cost":  {rule: "cost: response.X-Cost, hot: {rate: 0.1}", handler: reports("many"), rate: 20},
		"field of another name":  {rule: "cost: response.X-Other, hot: {rate: 0.1}", handler: reports("5"), rate: 20, shown: true},
		"answers from the cache": {rule: "cost: time, hot: {rate: 1s}, cache: {ttl: 10s}", handler: sleeps(400 * time.Millisecond), rate: 5, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				set, err := hotparam.ParseRules("rules.yaml", []byte(
					"rules: [{name: report, match: {path: /report}, params: [{name: filter, duplicates: last}], "+c.rule+"}]"))
				if err != nil {
					t.Fatal(err)
				}
				events := make(chan hotparam.Event, 100)
				p, err := hotparam.New(hotparam.Config{Rules: set, Log: slog.New(slog.DiscardHandler),
					OnEvent: func(e hotparam.Event) { events <- e }})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				running := make(chan error, 1)
				go func() { running <- p.Run(ctx) }()
				handler := p.Middleware(c.handler)
				for began := time.Now(); time.Since(began) < 40*time.Second; {
					go func() {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						if c.leaves > 0 {
							time.AfterFunc(c.leaves, cancel)
						}
						w := httptest.NewRecorder()
						r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/report?filter=full", nil)
						handler.ServeHTTP(w, r)
						if has := w.Header().Get("X-Cost") != ""; has != c.shown {
							t.Errorf("clients get the cost: %v", has)
						}
					}()
					time.Sleep(time.Duration(float64(time.Second) / c.rate))
				}
				time.Sleep(2 * time.Minute) // the last request ends
				cancel()
				if err := <-running; err != nil {
					t.Error(err)
				}
				close(events)
				var hot *hottype.HotKey
				cooled := 0
				for e := range events {
					switch e.Kind {
					case hotparam.EventHot:
						hot = &e.Hot
					case hotparam.EventCold:
						hot, cooled = &e.Hot, cooled+1
					}
				}
				switch {
				case c.want == 0 && hot == nil:
				case hot == nil || c.want == 0:
					t.Errorf("hot: %+v", hot)
				case cooled != 1:
					t.Errorf("it cooled %d times while the demand was constant", cooled)
				case hot.PeakRate < 0.9*c.want || hot.PeakRate > 1.3*c.want || !strings.Contains(c.rule, "cost: "+string(hot.Cost)):
					t.Errorf("peak of %s, want %s", hot.Cost.FormatRate(hot.PeakRate), hot.Cost.FormatRate(c.want))
				}
			})
		})
	}
}

// streams returns a handler that begins its response at once and ends it after some time.
func streams(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		time.Sleep(d)
		_, _ = w.Write([]byte("x"))
	}
}

// A caller without responses sets the cost of a request itself; a request without a cost counts the mean.
func TestDecision_SetsCost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, err := hotparam.ParseRules("rules.yaml", []byte("rules: [{name: report, match: {path: /report}, "+
			"params: [{name: filter, duplicates: last}], cost: response.X-Cost, hot: {rate: 20}}]"))
		if err != nil {
			t.Fatal(err)
		}
		events := make(chan hotparam.Event, 100)
		p, err := hotparam.New(hotparam.Config{Rules: set, Log: slog.New(slog.DiscardHandler),
			OnEvent: func(e hotparam.Event) { events <- e }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		running := make(chan error, 1)
		go func() { running <- p.Run(ctx) }()
		for i := range 20 {
			d, err := p.Begin(ctx, hotparam.Request{Method: http.MethodGet, Target: "/report?filter=full"})
			if err != nil {
				t.Fatal(err)
			}
			if d.HandlerStarted(); i%2 == 0 {
				d.SetCost(12.5)
			}
			d.Done()
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute) // the key cools
		cancel()
		if err := <-running; err != nil {
			t.Error(err)
		}
		close(events)
		var peak float64
		for e := range events {
			peak = max(peak, e.Hot.PeakRate)
		}
		if peak < 22 || peak > 32 {
			t.Errorf("a peak of %g, want two requests of 12.5 a second", peak)
		}
	})
}
