package others

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/statsd_exporter/pkg/event"
	"github.com/prometheus/statsd_exporter/pkg/line"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

const sourceOfExporter = "github.com/prometheus/statsd_exporter"

// lineCase is a line of a table of statsd_exporter's tests.
type lineCase struct {
	name, line string
	enabled    []string // methods of its parser, which the test with the table calls
}

// lineTables reads the tables of lines from the tests of statsd_exporter, in the folder of its module.
func lineTables(t *testing.T, dir string) (list []lineCase) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "pkg/line/line_test.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		test, ok := decl.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(test.Name.Name, "Test") {
			continue
		}
		var enabled []string
		var cases []lineCase
		ast.Inspect(test, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if strings.HasPrefix(n.Sel.Name, "Enable") {
					enabled = append(enabled, n.Sel.Name)
				}
			case *ast.KeyValueExpr:
				name, isText := n.Key.(*ast.BasicLit)
				if fields, ok := n.Value.(*ast.CompositeLit); ok && isText {
					cases = append(cases, lineCase{name: test.Name.Name + ": " + text(name), line: fieldOf(fields, "in")})
				}
			}
			return true
		})
		for _, c := range cases {
			c.enabled = enabled
			if !strings.Contains(c.name, ": tag") || c.line != "" { // labels of events are pairs of texts too
				list = append(list, c)
			}
		}
	}
	return list
}

func text(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok {
		if s, err := strconv.Unquote(lit.Value); err == nil {
			return s
		}
	}
	return ""
}

// fieldOf returns the text of a field of a composite literal, or "".
func fieldOf(fields *ast.CompositeLit, name string) string {
	for _, e := range fields.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok && id.Name == name {
				return text(kv.Value)
			}
		}
	}
	return ""
}

// leadingName matches the name at the begin of a line, without its tags.
var leadingName = regexp.MustCompile(`^[A-Za-z_.]+`)

// Our listener counts what statsd_exporter's parser counts of each line of its tables, under a name of ours. Lines that
// are no counters count nothing in both.
func TestStatsD_CountsLinesOfExporter(t *testing.T) {
	s := begin(t, "statsd_exporter", sourceOfExporter)
	_, dir := moduleOf(t, sourceOfExporter)
	names := canon.Names{Prefix: "hp"}
	const key hottype.Key = "topic?id=42"
	ours := string(names.Append(nil, key))
	cases := lineTables(t, dir)
	if len(cases) < 150 {
		t.Fatalf("the tables have %d lines", len(cases))
	}
	var mu sync.Mutex
	counted := map[hottype.Key]int64{}
	l, err := statsd.NewListener(statsd.ListenerConfig{
		Addresses: []string{"tcp://127.0.0.1:0"}, Names: names, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Unix(1_656_581_401, 0) }, // some lines carry the second before
		Handle: func(counts []hottype.Count) {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range counts {
				counted[c.Key] += c.N
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redistest.Running(t, l.Run))
	for _, c := range cases {
		c.line = leadingName.ReplaceAllLiteralString(c.line, ours)
		want := countedByExporter(c, ours)
		before := l.Stats().Lines
		mu.Lock()
		clear(counted)
		mu.Unlock()
		// The last line has a known count, for which the test waits.
		const last = "topic?id=last"
		send(t, l.Addr(), c.line+"\n"+string(names.Append(nil, last))+":1|c\n")
		redistest.Eventually(t, "the last line", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return counted[last] == 1 && l.Stats().Lines > before
		})
		mu.Lock()
		got := counted[key]
		mu.Unlock()
		var fault error
		if got != want {
			fault = fmt.Errorf("%q counts %d, and %d in statsd_exporter", c.line, got, want)
		}
		_, title, _ := strings.Cut(c.name, ": ")
		s.record(c.name, fault, title, groupOfLine(c))
	}
}

// groupOfLine returns the name of the lines with tags of Librato, InfluxDB or SignalFx.
func groupOfLine(c lineCase) string {
	name, _, _ := strings.Cut(c.line, ":")
	if strings.ContainsAny(name, "#,[]") {
		return "tags within a name"
	}
	return ""
}

// countedByExporter returns what statsd_exporter counts of a line under a name.
func countedByExporter(c lineCase, name string) (sum int64) {
	p := line.NewParser()
	for _, method := range c.enabled {
		reflect.ValueOf(p).MethodByName(method).Call(nil)
	}
	counter := func() prometheus.Counter { return prometheus.NewCounter(prometheus.CounterOpts{Name: "x"}) }
	faults := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x"}, []string{"reason"})
	for _, e := range p.LineToEvents(c.line, *faults, counter(), counter(), counter(), slog.New(slog.DiscardHandler)) {
		if e, ok := e.(*event.CounterEvent); ok && e.CMetricName == name {
			sum += int64(e.CValue)
		}
	}
	return sum
}

func send(t *testing.T, to net.Addr, text string) {
	t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err == nil {
		_, err = io.WriteString(conn, text)
	}
	if err == nil {
		err = conn.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
