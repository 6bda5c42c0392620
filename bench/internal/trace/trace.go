// Package trace holds the traffic of bench/hot: requests of keys by clients over time. It makes traces from a seed,
// reads the keys of other people's traces, and writes and reads a trace as text that any language can read. Each line
// is
//
//	time key client
//
// with the time in milliseconds since the trace began, in order.
package trace

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	// Window is the time over which the requests of a key are counted, in milliseconds.
	Window = 5000
	// Tick is the time between two judgements, in milliseconds.
	Tick = 100
)

// Trace is some traffic. A key is hot while it has Hot requests within the last Window.
type Trace struct {
	Name, About string
	Hot         int
	Keys        []string
	Requests    []Request
}

// Request is a request of a trace.
type Request struct {
	At     int32  // milliseconds since the trace began
	Key    uint32 // its place in the trace's keys
	Client uint32
}

// Ends returns the time at which the last whole tick of the trace ends.
func (t *Trace) Ends() int32 {
	if len(t.Requests) == 0 {
		return 0
	}
	return t.Requests[len(t.Requests)-1].At / Tick * Tick
}

// Peak returns the maximum number of requests within a window and a tick.
func (t *Trace) Peak() (most int) {
	first := 0
	for i := range t.Requests {
		for t.Requests[i].At-t.Requests[first].At > Window+Tick {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Write writes the lines of the trace.
func (t *Trace) Write(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<16)
	var line []byte
	for _, r := range t.Requests {
		line = strconv.AppendInt(line[:0], int64(r.At), 10)
		line = append(append(append(line, ' '), t.Keys[r.Key]...), " c"...)
		line = append(strconv.AppendUint(line, uint64(r.Client), 10), '\n')
		if _, err := b.Write(line); err != nil {
			return fmt.Errorf("trace: %w", err)
		}
	}
	return b.Flush()
}

// Read reads the lines of a trace.
func Read(r io.Reader) (*Trace, error) {
	t := &Trace{}
	keys, clients := newNames(strings.Clone), newNames(strings.Clone)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		time, rest, _ := strings.Cut(lines.Text(), " ")
		key, client, ok := strings.Cut(rest, " ")
		at, err := strconv.ParseInt(time, 10, 32)
		switch last := len(t.Requests) - 1; {
		case err != nil || !ok || key == "" || strings.Contains(client, " "):
			return nil, fmt.Errorf("trace: line %d is %q, not: time key client", n, lines.Text())
		case last >= 0 && t.Requests[last].At > int32(at):
			return nil, fmt.Errorf("trace: line %d is of %d ms, before the line above", n, at)
		}
		t.Requests = append(t.Requests, Request{int32(at), keys.number(key), clients.number(client)})
	}
	t.Keys = keys.list
	return t, lines.Err()
}

// names numbers names in the order in which they come.
type names[N comparable] struct {
	numbers map[N]uint32
	list    []string
	format  func(N) string
}

func newNames[N comparable](format func(N) string) *names[N] {
	return &names[N]{numbers: map[N]uint32{}, format: format}
}

func (n *names[N]) number(name N) uint32 {
	i, ok := n.numbers[name]
	if !ok {
		i = uint32(len(n.list))
		n.list = append(n.list, n.format(name))
		n.numbers[name] = i
	}
	return i
}
