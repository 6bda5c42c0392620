package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// ampleWorkers is the number of workers of an upstream that ordinary traffic does not saturate, and ampleCapacity
	// the requests a second that it answers.
	ampleWorkers  = 150
	ampleCapacity = ampleWorkers * float64(time.Second) / float64(service)
	// busiest is the part of the capacity that a log asks for in its busiest five seconds, when it is played faster.
	busiest = 0.5
	// longestPause is the pause to which longer ones of a log are cut.
	longestPause = 2 * time.Second
)

// ordinary counts the requests of traffic that saturates nothing, under the default rules of serve --upstream.
type ordinary struct {
	requests, hot, denied int
}

// site is the product with the default rules of serve --upstream, in front of an ample upstream.
type site struct {
	*clock
	product *product
	up      *upstream
	ordinary
}

func newSite(seed uint64) *site {
	k, random := new(clock), rand.New(rand.NewPCG(seed, 5))
	s := &site{clock: k, product: newProductOf(k, random, rules.DefaultAdaptive(), 1),
		up: &upstream{clock: k, random: random, workers: ampleWorkers}}
	s.product.start()
	return s
}

// ask sends a request now.
func (s *site) ask(req *hottype.Request) {
	s.requests++
	v := s.product.ask(req, s.up, func(reply) {})
	if v.Hot {
		s.hot++
	}
	if !v.Allowed {
		s.denied++
	}
}

// playDay plays hours of a site with 20 requests a second on average, most of them in the evening, and a topic that is
// asked for 700 times a second in ten minutes of every eight hours.
func (s *site) playDay(hours time.Duration) {
	random := s.product.random
	var next func()
	next = func() {
		quiet, viral := 20*(1-0.8*math.Cos(2*math.Pi*s.now.Hours()/24)), 0.0
		if at := s.now % (8 * time.Hour); at > time.Hour && at < 70*time.Minute {
			viral = 700
		}
		topic := strconv.Itoa(random.IntN(5000))
		if random.Float64()*(quiet+viral) < viral {
			topic = "viral"
		}
		addr := netip.AddrFrom4([4]byte{10, 0, byte(random.IntN(256)), byte(random.IntN(256))})
		s.ask(&hottype.Request{Method: "GET", Target: "/article?id=" + topic, Client: hottype.Client{Addr: addr}})
		s.after(seconds(1)*time.Duration(1e6*random.ExpFloat64()/(quiet+viral))/1e6, next)
	}
	s.after(0, next)
	s.run(hours)
}

// logged is a request of a log.
type logged struct {
	at     time.Duration // since the first
	target string
	client string
}

// readVisits returns the requests of a log that replay reads, or of a file of seconds, clients, methods and targets.
func readVisits(path string) (list []logged, err error) {
	text, err := readText(path)
	if err != nil {
		return nil, fmt.Errorf("flood: %w", err)
	}
	var first time.Time
	add := func(at time.Time, client, target string) {
		if first.IsZero() {
			first = at
		}
		list = append(list, logged{at.Sub(first), strings.Clone(target), client})
	}
	if !strings.Contains(path, ".tsv") {
		_, err = replay.Read(context.Background(), replay.Config{}, func(s *replay.Seen) {
			add(s.At, s.Request.Client.String(), s.Request.Target)
		}, replay.Source{Name: path, Reader: strings.NewReader(text)})
		return list, err
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "\t")
		second, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil || len(f) != 4 {
			return nil, fmt.Errorf("flood: %s: %q is no request", path, line)
		}
		add(time.Unix(second, 0), f[1], f[3])
	}
	return list, nil
}

// readText returns a file, which may be compressed.
func readText(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var plain io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if plain, err = gzip.NewReader(f); err != nil {
			return "", err
		}
	}
	data, err := io.ReadAll(plain)
	return string(data), err
}

// speed returns how many times faster a log is played so that its busiest five seconds ask for a part of the capacity.
func speed(list []logged) float64 {
	most, first := 0, 0
	for i := range list {
		for list[i].at-list[first].at >= 5*time.Second {
			first++
		}
		most = max(most, i+1-first)
	}
	return max(1, busiest*ampleCapacity*5/float64(max(most, 1)))
}

// playLog plays a log faster, with its requests spread over their second.
func (s *site) playLog(list []logged, faster float64) {
	at, last := time.Duration(0), time.Duration(0)
	for i := range list {
		v := &list[i]
		at += min(longestPause, max(0, v.at-last))
		last = max(last, v.at)
		begin := time.Duration(float64(at+time.Duration(s.product.random.Int64N(int64(time.Second)))) / faster)
		s.after(begin-s.now, func() {
			s.ask(&hottype.Request{Method: "GET", Target: v.target, Client: hottype.ParseClient(v.client)})
		})
	}
	s.run(time.Duration(float64(at)/faster) + time.Minute)
}

// studyOrdinary plays a day, and the logs of a folder.
func studyOrdinary(logs string) error {
	fmt.Printf("| traffic | times faster | requests | of them for hot keys | denied |\n|---|---|---|---|---|\n")
	day := newSite(1)
	day.playDay(24 * time.Hour)
	day.print("24 hours", 1)
	files, err := filepath.Glob(filepath.Join(logs, "*"))
	if err != nil {
		return fmt.Errorf("flood: %w", err)
	}
	found := false
	for _, path := range files {
		if !strings.Contains(path, ".log") && !strings.Contains(path, ".tsv") {
			continue
		}
		found = true
		list, err := readVisits(path)
		if err != nil {
			return err
		}
		for _, faster := range []float64{1, speed(list)} {
			s := newSite(1)
			s.playLog(list, faster)
			s.print(filepath.Base(path), faster)
		}
	}
	if logs != "" && !found {
		return errors.New("flood: " + logs + " has no logs")
	}
	return nil
}

func (o *ordinary) print(name string, faster float64) {
	fmt.Printf("| %s | %.3g | %d | %d | %d |\n", name, faster, o.requests, o.hot, o.denied)
}
