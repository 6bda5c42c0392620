package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/counting/unpack"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// logFormat holds the options of commands that read logs.
type logFormat struct {
	Format    string `enum:"auto,${log_formats}" default:"auto" help:"Form of the lines: ${enum}. events is tab-separated: unix_seconds client method target."`
	LogFormat string `placeholder:"FORM" help:"Form of the lines in place of --format: nginx's log_format, '$$remote_addr \"$$request\" $$status $$msec', or fields of JSON lines or columns of W3C logs: json:time=ts,client=ip,target=url, w3c:client=X-Forwarded-For."`
}

// shellArguments returns the options as a shell reads them, with a space before each, or "" if both have their
// defaults.
func (f *logFormat) shellArguments() (text string) {
	if f.Format != "auto" {
		text = " --format " + f.Format
	}
	if f.LogFormat != "" {
		text += " --log-format " + shellWord(f.LogFormat)
	}
	return text
}

// plainWord matches words that a shell does not interpret.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord quotes a word for a shell.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (f *logFormat) format() (accesslog.Format, error) {
	return config.LogFormat(f.Format, f.LogFormat)
}

type replayCmd struct {
	Privacy config.Privacy `embed:"" prefix:"privacy."`
	Config  string         `short:"c" placeholder:"FILE" help:"YAML file with the rules."`
	logFormat
	outputFlags
	Speed    string        `default:"max" help:"Seconds of the log per second, or max; 1 is the original speed. It does not change the result."`
	Lateness time.Duration `default:"10m" help:"Maximum time by which a line may be late and still be sorted."`
	MaxKeys  int           `default:"1000000" help:"Maximum number of keys, and of clients, with a line of their own."`
	Top      int           `default:"20" help:"Rows of a table in the report."`
	Files    []string      `arg:"" name:"file" help:"Access logs, or directories of them, plain or compressed with gzip, bzip2, xz or zstd; - is standard input."`
}

func (c *replayCmd) Run(ctx context.Context, k *kong.Kong, p *config.Parser) error {
	set, err := p.Rules()
	if err != nil {
		return err
	}
	speed, err := parseSpeed(c.Speed)
	if err != nil {
		return err
	}
	logs, err := openLogs(c.Files)
	if err != nil {
		return err
	}
	defer logs.Close()
	cfg := replay.Config{Rules: set, Lateness: c.Lateness, MaxKeys: c.MaxKeys, Speed: speed}
	if cfg.Format, err = c.format(); err != nil {
		return err
	}
	bar := newProgressBar(logs.size)
	if bar != nil {
		cfg.Progress = func(bytes int64) { _ = bar.Set64(bytes) } // a bar that fails to draw does no harm
	}
	report, err := replay.Run(ctx, cfg, logs.replaySources(func(f *os.File) io.Reader { return f })...)
	if bar != nil {
		_ = bar.Clear()
	}
	if report == nil {
		return err
	}
	return errors.Join(err, c.write(k.Stdout, report), checkMalformed("replay", report))
}

func checkMalformed(command string, r *replay.Report) error {
	if r.Requests > 0 || r.Malformed == 0 {
		return nil
	}
	return fmt.Errorf("%s: all %d lines are malformed; tried: %s; the first is %s:%d: %s; describe a line with "+
		"--log-format, as nginx does: '$remote_addr [$time_local] \"$request\" $status'", command, r.Malformed,
		strings.Join(accesslog.Names(), ", "), r.Broken[0].Source, r.Broken[0].Line, r.Broken[0].Reason)
}

func (c *replayCmd) write(out io.Writer, r *replay.Report) error {
	opts := replay.Options{Top: c.Top, NoRules: c.Config == ""}
	if isatty.IsTerminal(os.Stdout.Fd()) {
		opts.Color = os.Getenv("NO_COLOR") == ""
		opts.Width, _, _ = term.GetSize(int(os.Stdout.Fd()))
	}
	return c.Print(out, r, func(out io.Writer) error { return replay.Write(out, r, opts) })
}

func parseSpeed(s string) (float64, error) {
	if s == "max" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) || v > 1e9 {
		return 0, config.Usage("--speed %q must be max or a number above 0", s)
	}
	return v, nil
}

// logFiles are open logs. size is the sum of their sizes in bytes, or -1 if standard input is among them.
type logFiles struct {
	names []string
	files []*os.File
	size  int64
}

// openLogs opens all files, and all files of directories, before any of them is read.
func openLogs(paths []string) (*logFiles, error) {
	l := &logFiles{}
	for _, path := range paths {
		if err := l.open(path); err != nil {
			l.Close()
			return nil, fmt.Errorf("read the log: %w", err)
		}
	}
	return l, nil
}

func (l *logFiles) open(path string) error {
	if path == "-" {
		l.names, l.files, l.size = append(l.names, "standard input"), append(l.files, os.Stdin), -1
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return errors.Join(l.openDirectory(path), f.Close())
	}
	l.names, l.files = append(l.names, path), append(l.files, f)
	if err == nil && l.size >= 0 {
		l.size += info.Size()
	}
	return err
}

// openDirectory opens the files of a directory, such as the parts of a rotated log. Their order does not matter,
// because lines are put in order by their time. Hidden files and directories are left out.
func (l *logFiles) openDirectory(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	before := len(l.files)
	for _, e := range entries {
		file := filepath.Join(path, e.Name())
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue // also a link to nothing
		}
		if err := l.open(file); err != nil {
			return err
		}
	}
	if len(l.files) == before {
		return fmt.Errorf("the directory %s has no files", path)
	}
	return nil
}

func (l *logFiles) replaySources(read func(*os.File) io.Reader) []replay.Source {
	var sources []replay.Source
	for i, f := range l.files {
		sources = append(sources, replay.Source{Name: l.names[i], Reader: read(f), Unpack: unpack.Reader})
	}
	return sources
}

func (l *logFiles) Close() {
	for _, f := range l.files {
		if f != os.Stdin {
			f.Close() // closing a nil file is harmless
		}
	}
}

// newProgressBar returns a progress bar on standard error, or nil if that is not a terminal or the work is too small to
// wait for.
func newProgressBar(size int64) *progressbar.ProgressBar {
	if !isatty.IsTerminal(os.Stderr.Fd()) || size >= 0 && size < 8<<20 {
		return nil
	}
	return progressbar.NewOptions64(size, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription("replay"), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
}
