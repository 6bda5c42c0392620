package statsd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"time"
)

// Inspection holds the results of Inspect, which package doctor judges.
type Inspection struct {
	Addr string
	// AddrErr is the reason why no datagram can be sent there: the name does not resolve, or on the same machine, no
	// socket listens. UDP does not report other problems.
	AddrErr string
	// Admin is the address of the management interface, and AdminErr why it does not answer. Only the Node.js server
	// has one.
	Admin, AdminErr string
	Health          string // "up" or "down"
	// Settings holds the settings of the running server, or else of the file, by name: "flushInterval", "graphite >
	// legacyNamespace". Missing settings have the server's default.
	Settings      map[string]string
	Known         bool     // Settings could be read
	BadLines      string   // number of lines that the server could not read; "" if not reported
	File, FileErr string   // the configuration file that was read, and why it was not
	Unread        []string // settings of the file whose value is not a literal
}

const inspectWithin = 2 * time.Second

// Target names the places to inspect. Each of them may be empty.
type Target struct {
	Addr  string // of StatsD, UDP "host:port" or "unix:/path"
	Admin string // of the management interface, TCP "host:port"
	File  string // config.js
}

// Inspect inspects a server like Node.js statsd without changing it.
func Inspect(ctx context.Context, t Target) Inspection {
	in := Inspection{Addr: t.Addr, Admin: t.Admin, File: t.File, Settings: map[string]string{}}
	if t.File != "" {
		in.readFile(t.File)
	}
	if t.Addr != "" {
		in.AddrErr = errorText(probeAddr(ctx, t.Addr))
	}
	if t.Admin != "" {
		in.AdminErr = errorText(in.inspectAdmin(ctx, t.Admin))
	}
	return in
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// probeAddr sends an empty line, which servers ignore. On loopback the kernel reports if no socket listens.
func probeAddr(ctx context.Context, addr string) error {
	d := net.Dialer{Timeout: inspectWithin}
	network := "udp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unixgram", path
	}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return fmt.Errorf("statsd: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("\n")); err != nil {
		return fmt.Errorf("statsd: %w", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)) // a UDP socket always accepts a deadline
	_, err = conn.Read(make([]byte, 1))
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		return nil
	}
	return fmt.Errorf("statsd: no server listens: %w", err)
}

// quietFor is the silence that ends the list of settings, which has no last line.
const quietFor = 300 * time.Millisecond

// adminConn is a connection to the management interface, which takes one command at a time.
type adminConn struct {
	conn net.Conn
	r    *bufio.Reader
}

func (in *Inspection) inspectAdmin(ctx context.Context, addr string) error {
	d := net.Dialer{Timeout: inspectWithin}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("statsd: management interface: %w", err)
	}
	defer conn.Close()
	m := adminConn{conn, bufio.NewReader(conn)}
	health, err := m.runCommand("health", func(line string) bool { return strings.HasPrefix(line, "health:") })
	if err != nil {
		return err
	}
	in.Health = health["health"]
	settings, err := m.runCommand("config", nil)
	if err != nil {
		return err
	}
	in.Settings, in.Known = settings, true
	stats, err := m.runCommand("stats", func(line string) bool { return line == "END" })
	in.BadLines = stats["messages.bad_lines_seen"]
	return err
}

const maxLines = 10_000

// runCommand sends a command and reads "name: value" lines up to the last one, or until the server is silent.
func (a adminConn) runCommand(command string, last func(string) bool) (map[string]string, error) {
	fail := func(err error) error {
		return fmt.Errorf("statsd: management interface: %s: %w; is this a Node.js statsd?", command, err)
	}
	if _, err := a.conn.Write([]byte(command + "\n")); err != nil {
		return nil, fail(err)
	}
	out := map[string]string{}
	patience := inspectWithin
	for range maxLines {
		if err := a.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return nil, fail(err)
		}
		line, err := a.r.ReadString('\n')
		if errors.Is(err, os.ErrDeadlineExceeded) && last == nil && len(out) > 0 {
			return out, nil
		}
		if err != nil {
			return nil, fail(err)
		}
		line = strings.TrimSpace(line)
		if name, value, ok := strings.Cut(line, ": "); ok {
			out[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
		if last == nil {
			patience = quietFor
		} else if last(line) {
			return out, nil
		}
	}
	return nil, fail(fmt.Errorf("more than %d lines", maxLines))
}

var (
	jsComment = regexp.MustCompile(`(?s)/\*.*?\*/|(^|[\s,{])//[^\n]*`)
	jsSetting = regexp.MustCompile(`["']?([A-Za-z_]\w*)["']?\s*:\s*("[^"\n]*"|'[^'\n]*'|[^\s,}\]]+)`)
	jsLiteral = regexp.MustCompile(`^(true|false|null|-?\d+(\.\d+)?|"[^"]*"|'[^']*')$`)
)

// nested maps the settings that are one level down to the names that the server uses for them.
var nested = map[string]string{"legacyNamespace": "graphite > legacyNamespace",
	"globalPrefix": "graphite > globalPrefix"}

// readFile finds settings in config.js. Because that is a program, only literal values are read.
func (in *Inspection) readFile(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		in.FileErr = err.Error()
		return
	}
	in.Known = true
	for _, m := range jsSetting.FindAllStringSubmatch(jsComment.ReplaceAllString(string(data), "$1"), -1) {
		name, value := m[1], m[2]
		switch {
		case value[0] == '{' || value[0] == '[':
		case !jsLiteral.MatchString(value):
			in.Unread = append(in.Unread, name)
		default:
			if full := nested[name]; full != "" {
				name = full
			}
			in.Settings[name] = strings.Trim(value, `"'`)
		}
	}
}
