// Program upstreams asks real servers and frameworks, over raw sockets, how they read each spelling in
// internal/rules/testdata/upstreams.json, and prints where the table is out of date. Then it asks how they read the
// spellings of methods, hosts and header fields in fields.tsv beside it. With -write it writes the tables again.
//
// With -record it sends mutated targets instead, and writes each target that an upstream reads as the value star to
// internal/rules/testdata/spellings.tsv.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// table is the file. The file has the fields in this order.
type table struct {
	Frameworks map[string]string `json:"frameworks"`
	Targets    []*target         `json:"targets"`
}

// target is one spelling. Each character of Target is one byte.
type target struct {
	Target      string            `json:"target"`
	Group       string            `json:"group"`
	Means       string            `json:"means"`
	Exact       []string          `json:"exact"`
	RoutedOther []string          `json:"routed_other"`
	Array       []string          `json:"array,omitempty"`
	Method      string            `json:"method,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        string            `json:"body,omitempty"`
	Param       string            `json:"param,omitempty"`
}

func main() {
	file := flag.String("table", "../../internal/rules/testdata/upstreams.json", "the table")
	dir := flag.String("dir", "", "work directory in which setup.sh has installed the frameworks")
	only := flag.String("only", "", "upstreams to ask, with commas; all that start if empty")
	write := flag.Bool("write", false, "write the tables anew")
	onlyFields := flag.Bool("fields", false, "ask about methods, hosts and header fields only")
	mutants := flag.Int("record", 0, "mutated targets to record of each upstream; 0: compare the table")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var differences int
	var err error
	if *mutants > 0 {
		err = record(ctx, "../../internal/rules/testdata/spellings.tsv", *dir, *mutants)
	} else {
		differences, err = run(ctx, *file, *dir, *only, *write, *onlyFields)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstreams:", err)
		os.Exit(2)
	}
	if differences > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, file, dir, only string, write, onlyFields bool) (differences int, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	var t table
	if err := json.Unmarshal(data, &t); err != nil {
		return 0, err
	}
	fieldsFile := filepath.Join(filepath.Dir(file), "fields.tsv")
	f, err := readFields(fieldsFile)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	l, err := newLab(dir)
	defer func() { cancel(); l.wait() }()
	if err != nil {
		return 0, err
	}
	for _, name := range append(slices.Sorted(maps.Keys(t.Frameworks)), fieldsOnly...) {
		if only != "" && !slices.Contains(strings.Split(only, ","), name) {
			continue
		}
		if l.addrs[name] == "" {
			if err := l.start(ctx, name); err != nil {
				fmt.Printf("%-26s left out: %v\n", name, err)
				continue
			}
		}
		if _, has := t.Frameworks[name]; has && !onlyFields {
			n := t.measure(ctx, name, l.addrs[name])
			fmt.Printf("%-26s %d targets, %d differ\n", name, len(t.Targets), n)
			differences += n
		}
		n := f.measure(ctx, name, l.addrs[name])
		fmt.Printf("%-26s %d spellings of fields, %d differ\n", name, len(fieldRequests), n)
		differences += n
	}
	if !write {
		return differences, nil
	}
	if !onlyFields {
		err = t.write(file)
	}
	return differences, errors.Join(err, f.write(fieldsFile))
}

// measure sends every target to one upstream, puts the results into the table, and returns the number of results that
// have changed.
func (t *table) measure(ctx context.Context, name, addr string) (differences int) {
	for _, tg := range t.Targets {
		was := missed
		switch {
		case slices.Contains(tg.Exact, name):
			was = exact
		case slices.Contains(tg.Array, name):
			was = array
		}
		now := ask(ctx, addr, tg)
		if now == other {
			now = missed
		}
		tg.Exact, tg.Array = with(tg.Exact, name, now == exact), with(tg.Array, name, now == array)
		if now != was {
			differences++
			fmt.Printf("%-26s %s: %.150q was %s, is %s\n", name, tg.Group, tg.Target, was, now)
		}
	}
	return differences
}

// with puts a name into a sorted list, or takes it out.
func with(list []string, name string, in bool) []string {
	i, found := slices.BinarySearch(list, name)
	switch {
	case in && !found:
		return slices.Insert(list, i, name)
	case !in && found:
		return slices.Delete(list, i, i+1)
	}
	return list
}

// write writes the table with a target a line.
func (t *table) write(file string) error {
	var out bytes.Buffer
	line := func(v any) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(v) // plain values
		out.Write(bytes.TrimSpace(b.Bytes()))
	}
	out.WriteString(`{"frameworks":`)
	line(t.Frameworks)
	out.WriteString(",\n\"targets\":[\n")
	for i, tg := range t.Targets {
		if i > 0 {
			out.WriteString(",\n")
		}
		line(tg)
	}
	out.WriteString("\n]}\n")
	return os.WriteFile(file, out.Bytes(), 0o644) //nolint:gosec // a file of the repository
}
