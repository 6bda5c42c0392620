package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/rules"
)

// smallSizes are the numbers of counters for logs, which have a few hundred keys in a window.
var smallSizes = []int{32, 128, 512, 2048}

// realLogs are the logs that the study knows. Speeds are chosen so that keys become hot: the first log is one burst of
// a minute in each hour.
var realLogs = []struct {
	file, name string
	format     accesslog.Format
	speeds     []int
	rates      []int // requests per second from which a key is hot
}{
	{"semicomplete_apache_2015.log", "web site", accesslog.Combined, []int{60, 600, 3600}, []int{2, 2, 2}},
	{"usagov_bitly_2012-03-16.events.tsv", "short links", accesslog.Events, []int{60, 600}, []int{5, 50}},
}

// logStreams reads the logs that are in a directory, which may have no logs.
func logStreams(dir string) ([]*stream, error) {
	var all []*stream
	for _, l := range realLogs {
		path := filepath.Join(dir, l.file)
		text, err := os.ReadFile(path)
		if dir == "" || errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "study: no %s: its rows are left out\n", l.file)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("study: %w", err)
		}
		for i, speed := range l.speeds {
			s, err := logStream(string(text), l.format, speed, l.rates[i])
			if err != nil {
				return nil, fmt.Errorf("study: %s: %w", l.file, err)
			}
			s.name = fmt.Sprintf("%s, x %d, hot from %d/s", l.name, speed, l.rates[i])
			all = append(all, s)
		}
	}
	return all, nil
}

// visit is a request of a log.
type visit struct {
	second int64
	id     uint32
}

// logStream returns a log in the order of time, speed times as fast.
func logStream(text string, format accesslog.Format, speed, rate int) (*stream, error) {
	set, err := rules.Parse("study.yaml", fmt.Appendf(nil,
		"rules:\n  - {name: \"*\", params: [\"*\"], hot: {rate: %d, window: %ds}}\n", rate, window))
	if err != nil {
		return nil, err
	}
	s := &stream{group: "logs", set: set, sizes: smallSizes, numbers: map[hottype.Key]uint32{}}
	visits := s.read(text, format)
	if len(visits) == 0 {
		return nil, errors.New("no request in it")
	}
	slices.SortStableFunc(visits, func(a, b visit) int { return int(a.second - b.second) })
	first := visits[0].second
	tickOf := func(v visit) int { return int((v.second - first) * ticks / int64(speed)) }
	s.keys, s.seconds = len(s.names), tickOf(visits[len(visits)-1])/ticks+1
	s.open = func() func(int, []uint32) []uint32 {
		next := 0
		return func(tick int, ids []uint32) []uint32 {
			for ; next < len(visits) && tickOf(visits[next]) <= tick; next++ {
				ids = append(ids, visits[next].id)
			}
			return ids
		}
	}
	return s, nil
}

// read returns the requests that a rule counts. It leaves broken lines out, as replay does.
func (s *stream) read(text string, format accesslog.Format) []visit {
	var visits []visit
	var scratch rules.Scratch
	for line := range strings.Lines(text) {
		var e accesslog.Entry
		if format.Parse(strings.TrimRight(line, "\r\n"), &e) != nil {
			continue
		}
		for _, m := range s.set.Match(&e.Request, &scratch) {
			key := hottype.Key(m.Key)
			id, known := s.numbers[key]
			if !known {
				id = uint32(len(s.names))
				s.numbers[key] = id
				s.names = append(s.names, key)
			}
			visits = append(visits, visit{e.Second, id})
		}
	}
	return visits
}
