package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// learningSite is a site that learns from its visitors, on the clock of the test.
type learningSite struct {
	*learning
	t       *testing.T
	dir     string
	page    http.Handler
	log     bytes.Buffer
	said    bytes.Buffer
	visitor *rand.Rand
	stop    context.CancelFunc
	ended   chan error
}

func startLearning(t *testing.T, length time.Duration, set *rules.Set) *learningSite {
	t.Helper()
	s := &learningSite{t: t, dir: t.TempDir(), visitor: rand.New(rand.NewPCG(1, 2)), ended: make(chan error, 1)}
	var cfg config.Serve
	cfg.State.Dir, cfg.Stop.Timeout = s.dir, 10*time.Second
	l := Learning{For: length, Output: &s.said}
	opened, err := l.Open(cfg, func() *rules.Set { return set }, httplimit.NewClients(nil, ""),
		slog.New(slog.NewTextHandler(&s.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	s.learning = opened.(*learning)
	s.page = s.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.ended <- s.Run(ctx) }()
	synctest.Wait()
	return s
}

// visits sends the requests of a second for topics, including a viral topic if it is not "".
func (s *learningSite) visits(viral string) {
	for n := range 60 {
		id := fmt.Sprint(1000 + s.visitor.IntN(3000))
		if n < 30 && viral != "" {
			id = viral
		}
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.RequestURI = fmt.Sprintf("/topic?utm_source=s%d&id=%s&cb=%d", s.visitor.IntN(30), id,
			s.visitor.Int64N(1<<53))
		who := s.visitor.IntN(5000)
		req.RemoteAddr = fmt.Sprintf("81.2.%d.%d:1", who>>8, who&255)
		req.Header.Set("User-Agent", "Mozilla/5.0")
		s.page.ServeHTTP(httptest.NewRecorder(), req)
	}
	time.Sleep(time.Second) // of the test's clock
}

// end stops the site and returns the file that it wrote.
func (s *learningSite) end() string {
	s.t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		s.t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, learnedName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, ".hotparam-learn-*")); len(left) > 0 {
		s.t.Errorf("%s is left behind", left)
	}
	return string(text)
}

func TestLearning_WritesConfiguration(t *testing.T) {
	t.Parallel()
	set, err := rules.ParseWith(
		"rules.yaml",
		[]byte(`{namespace: news, redact: {token: mask}, ip: {trusted_proxies: [192.0.2.0/24]},
		rules: [{name: "*", params: ["*"], hot: {rate: 100}}]}`),
		rules.Options{},
	)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := startLearning(t, 5*time.Minute, set)
		for second := range 310 {
			viral := ""
			if second > 20 && second%60 < 30 {
				viral = fmt.Sprint(7000 + second/60)
			}
			s.visits(viral)
		}
		synctest.Wait()
		text := s.end()
		learned, _, err := program.Validate(filepath.Join(s.dir, learnedName))
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, text, &s.log)
		}
		r := learned.Rules[0]
		if r.Name != "topic" || len(r.Params) != 1 || r.Params[0].Name != "id" {
			t.Errorf("%+v", r)
		}
		for _, want := range []string{"`hotparam serve --learn` from 18,0", "a sketch of 5 minutes",
			"it is not here: namespace, redact,", "utm_*"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		for where, said := range map[string]string{"log": s.log.String(), "terminal": s.said.String()} {
			if !strings.Contains(said, learnedName) || strings.Contains(text, "It looked for") {
				t.Errorf("%s: %s", where, said)
			}
		}
		if !strings.Contains(s.said.String(), "rule topic: /topic by id; hot from") ||
			!strings.Contains(s.log.String(), "msg=learned") {
			t.Errorf("%s\n%s", &s.said, &s.log)
		}
	})
}

// A program that is stopped early learns from its requests so far, and reports for how long it watched.
func TestLearning_UsesRequestsSoFarIfStopped(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int]string{100: "It looked for 1m40s and not for 10m0s", 2: ""} {
		synctest.Test(t, func(t *testing.T) {
			s := startLearning(t, 10*time.Minute, rules.Default())
			for range seconds {
				s.visits("")
			}
			text := s.end()
			if !strings.Contains(text, want) || (want == "") != (text == "") {
				t.Errorf("after %d s: %s\n%s", seconds, text, &s.log)
			}
			if want == "" && (!strings.Contains(s.log.String(), "120 requests in 2s; at least 500") ||
				!strings.Contains(s.said.String(), "nothing was learned")) {
				t.Errorf("%s %s", &s.log, &s.said)
			}
		})
	}
}

func TestLearning_OverwritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startLearning(t, time.Minute, rules.Default())
		mine := filepath.Join(s.dir, learnedName)
		if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 61 {
			s.visits("")
		}
		if text := s.end(); text != "mine" || !strings.Contains(s.log.String(), "level=ERROR") {
			t.Errorf("%s %s", text, &s.log)
		}
		var cfg config.Serve
		cfg.State.Dir = s.dir
		again, err := (&Learning{For: time.Minute}).Open(cfg, rules.Default, nil,
			slog.New(slog.NewTextHandler(&s.log, nil)))
		if again != nil || err != nil || !strings.Contains(s.log.String(), "there already") {
			t.Errorf("a restart: %v %v", again, err)
		}
	})
}

// Settings that cannot work are reported at the start.
func TestLearning_RejectsSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inForce := filepath.Join(dir, "hotparam.yaml")
	if err := os.WriteFile(inForce, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, l := range map[string]Learning{
		"--learn 0s must be above 0s":        {},
		"--learn -1m0s":                      {For: -time.Minute},
		"at most 24h0m0s":                    {For: 24*time.Hour + 1},
		"which is in force":                  {For: time.Minute, Out: filepath.Join(dir, ".", "hotparam.yaml")},
		"nothing could be written to":        {For: time.Minute, Out: filepath.Join(dir, "none", "x.yaml")},
		"hotparam.yaml/x.yaml: open":         {For: time.Minute, Out: filepath.Join(inForce, "x.yaml")},
		"could be written to --learn-out /p": {For: time.Minute, Out: "/proc/x.yaml"},
	} {
		var cfg config.Serve
		cfg.State.Dir, cfg.Config = dir, inForce
		_, err := l.Open(cfg, rules.Default, nil, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", l, err, want)
		}
	}
}
