package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// receiver is a running receiver. stop ends it and returns the number of lines that it has counted.
type receiver struct {
	p    *process.Process
	port int
	stop func() (lines uint64, err error)
	file string // to be removed at the end, or ""
}

func (r *receiver) close() {
	r.p.Stop()
	if r.file != "" {
		_ = os.Remove(r.file) // in the folder for temporary files
	}
}

// startOurs runs this program again, as a listener.
func startOurs(ctx context.Context) (*receiver, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	// A pipe of our own, because the pipe of StdoutPipe is closed when the process ends, even if it has not been read.
	stdout, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	var stdin io.WriteCloser
	var pipeErr error
	p, err := process.Start(ctx, func(cmd *exec.Cmd) {
		stdin, pipeErr = cmd.StdinPipe()
		cmd.Stdout, cmd.Stderr = write, os.Stderr
	}, self, "-listen", "127.0.0.1:"+strconv.Itoa(port))
	_ = write.Close() // the process has its own
	if err != nil {
		return nil, err
	}
	if pipeErr != nil {
		return nil, pipeErr
	}
	said := json.NewDecoder(stdout)
	var stats statsd.ListenerStats
	if err := said.Decode(&stats); err != nil { // the first statistics show that it is ready
		p.Stop()
		return nil, fmt.Errorf("udp: listener: %w", err)
	}
	return &receiver{p: p, port: port, stop: func() (uint64, error) {
		defer stdout.Close()
		if err := stdin.Close(); err != nil {
			return 0, err
		}
		err := said.Decode(&stats)
		return stats.Counted, err
	}}, nil
}

// startExporter runs statsd_exporter.
func startExporter(ctx context.Context, path string) (*receiver, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	web, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	page := "http://127.0.0.1:" + strconv.Itoa(web) + "/metrics"
	p, err := process.Start(ctx, nil, path, "--log.level=error", "--statsd.listen-tcp=",
		"--statsd.read-buffer=16777216",
		"--statsd.cache-size=100000", "--statsd.listen-udp=127.0.0.1:"+strconv.Itoa(port),
		"--web.listen-address=127.0.0.1:"+strconv.Itoa(web))
	if err != nil {
		return nil, err
	}
	err = p.Await(func() error {
		c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(web))
		if err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		p.Stop()
		return nil, err
	}
	return &receiver{p: p, port: port, stop: func() (uint64, error) {
		defer p.Stop()
		return sample(page, "statsd_exporter_lines_total ")
	}}, nil
}

// startNode runs the statsd in a folder. It never flushes: its counts are read by its management port.
func startNode(ctx context.Context, folder string) (*receiver, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	manage, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	config, err := os.CreateTemp("", "statsd-*.js")
	if err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	_, err = fmt.Fprintf(config,
		"{address: '127.0.0.1', port: %d, mgmt_address: '127.0.0.1', mgmt_port: %d, flushInterval: 3600000, backends: []}\n", port, manage)
	if err = errors.Join(err, config.Close()); err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	p, err := process.Start(ctx, nil, "node", filepath.Join(folder, "stats.js"), config.Name())
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(manage)
	r := &receiver{p: p, port: port, file: config.Name(), stop: func() (uint64, error) { return received(address) }}
	err = p.Await(func() error {
		_, told := received(address)
		_, bound := kernel(port)
		return errors.Join(told, bound)
	})
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

var metricsReceived = regexp.MustCompile(`'statsd\.metrics_received': (\d+)`)

// received returns the number of lines that a statsd has read.
func received(address string) (uint64, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(conn, "counters\n"); err != nil {
		return 0, err
	}
	answer := bufio.NewScanner(conn)
	for answer.Scan() && answer.Text() != "END" {
		if m := metricsReceived.FindStringSubmatch(answer.Text()); m != nil {
			return strconv.ParseUint(m[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("udp: statsd does not say how much it has received: %w",
		errors.Join(answer.Err(), io.ErrUnexpectedEOF))
}

// sample reads one counter from a metrics page, when it has stopped growing.
func sample(page, name string) (uint64, error) {
	last := -1.0
	for {
		value, err := read(page, name)
		if err != nil || value == last {
			return uint64(value), err
		}
		last = value
		time.Sleep(300 * time.Millisecond) // queued lines are still counted
	}
}

func read(page, name string) (float64, error) {
	resp, err := http.Get(page)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	value, found := 0.0, false
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok {
			if value, err = strconv.ParseFloat(rest, 64); err != nil {
				return 0, err
			}
			found = true
		}
	}
	if !found {
		return 0, fmt.Errorf("udp: %s has no %s", page, name)
	}
	return value, lines.Err()
}

// socket holds the kernel's figures of a socket: the bytes that wait to be read, and the datagrams dropped because the
// buffer was full.
type socket struct{ waiting, drops uint64 }

// kernel finds the socket of a port in /proc/net/udp.
func kernel(port int) (socket, error) {
	table, err := os.ReadFile("/proc/net/udp")
	if err != nil {
		return socket{}, err
	}
	local := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 13 || !strings.HasSuffix(f[1], local) {
			continue
		}
		_, queue, _ := strings.Cut(f[4], ":")
		waiting, err1 := strconv.ParseUint(queue, 16, 64)
		drops, err2 := strconv.ParseUint(f[12], 10, 64)
		return socket{waiting, drops}, errors.Join(err1, err2)
	}
	return socket{}, fmt.Errorf("udp: no socket of port %d in /proc/net/udp", port)
}
