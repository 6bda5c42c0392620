package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/operator/learn"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// logFormat are the options of commands that read logs.
type logFormat struct {
	Format    string `enum:"auto,${log_formats}" default:"auto" help:"Form of the lines: ${enum}. events is tab-separated: unix_seconds client method target."`
	LogFormat string `placeholder:"FORM" help:"Form of the lines in place of --format, as log_format of nginx has it: '$$remote_addr \"$$request\" $$status $$msec'; or fields of JSON lines: json:time=ts,client=ip,target=url."`
}

func (f *logFormat) format() (accesslog.Format, error) {
	return config.LogFormat(f.Format, f.LogFormat)
}

type replayCmd struct {
	Privacy config.Privacy `embed:"" prefix:"privacy."`
	Config  string         `short:"c" placeholder:"FILE" help:"YAML file with the rules."`
	logFormat
	JSON     string        `name:"json" placeholder:"FILE" help:"Write the result as one JSON document; - is standard output, without the report."`
	Speed    string        `default:"max" help:"max, or how many seconds of the log pass in one: 1 is as it was. Changes nothing in the result."`
	Lateness time.Duration `default:"10m" help:"How far behind by time a line may stand and still be put in order."`
	MaxKeys  int           `default:"1000000" help:"Most keys, and most clients, that get a line of their own."`
	Top      int           `default:"20" help:"Rows of a table in the report."`
	Files    []string      `arg:"" name:"file" help:"Access logs, plain or compressed with gzip, bzip2, xz or zstd; - is standard input."`
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
	bar := progress(logs.size)
	if bar != nil {
		cfg.Progress = func(bytes int64) { _ = bar.Set64(bytes) } // a bar that fails to draw does no harm
	}
	report, err := replay.Run(ctx, cfg, logs.sources(func(f *os.File) io.Reader { return f })...)
	if bar != nil {
		_ = bar.Clear()
	}
	if report == nil {
		return err
	}
	return errors.Join(err, c.write(k.Stdout, report), allMalformed("replay", report))
}

func allMalformed(command string, r *replay.Report) error {
	if r.Requests > 0 || r.Malformed == 0 {
		return nil
	}
	return fmt.Errorf("%s: all %d lines are malformed; tried: %s; the first is %s:%d: %s; describe a line with "+
		"--log-format, as nginx does: '$remote_addr [$time_local] \"$request\" $status'", command, r.Malformed,
		strings.Join(accesslog.Names(), ", "), r.Broken[0].Source, r.Broken[0].Line, r.Broken[0].Reason)
}

func (c *replayCmd) write(out io.Writer, r *replay.Report) error {
	if c.JSON == "-" {
		return r.WriteJSON(out)
	}
	opts := replay.Options{Top: c.Top, NoRules: c.Config == ""}
	if isatty.IsTerminal(os.Stdout.Fd()) {
		opts.Color = os.Getenv("NO_COLOR") == ""
		opts.Width, _, _ = term.GetSize(int(os.Stdout.Fd()))
	}
	if err := replay.Write(out, r, opts); err != nil || c.JSON == "" {
		return err
	}
	f, err := os.Create(c.JSON)
	if err != nil {
		return fmt.Errorf("replay: --json: %w", err)
	}
	return errors.Join(r.WriteJSON(f), f.Close())
}

func parseSpeed(s string) (float64, error) {
	if s == "max" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) || v > 1e9 {
		return 0, config.Usage("--speed %q: want max or a number above 0", s)
	}
	return v, nil
}

// logFiles are open logs. size is their sum in bytes, -1 where standard input is among them.
type logFiles struct {
	names []string
	files []*os.File
	size  int64
}

// openLogs opens all files before anything is read.
func openLogs(paths []string) (*logFiles, error) {
	l := &logFiles{}
	for _, path := range paths {
		if path == "-" {
			l.names, l.files, l.size = append(l.names, "standard input"), append(l.files, os.Stdin), -1
			continue
		}
		f, err := os.Open(path)
		l.names, l.files = append(l.names, path), append(l.files, f)
		var info os.FileInfo
		if err == nil {
			info, err = f.Stat()
		}
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory; name its files", path)
		}
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("read the log: %w", err)
		}
		if l.size >= 0 {
			l.size += info.Size()
		}
	}
	return l, nil
}

func (l *logFiles) sources(read func(*os.File) io.Reader) []replay.Source {
	var sources []replay.Source
	for i, f := range l.files {
		sources = append(sources, replay.Source{Name: l.names[i], Reader: read(f)})
	}
	return sources
}

func (l *logFiles) Close() {
	for _, f := range l.files {
		if f != os.Stdin {
			f.Close() // of nil too
		}
	}
}

// progress is a bar on standard error, nil when that is no terminal or the
// work is too small to wait for.
func progress(size int64) *progressbar.ProgressBar {
	if !isatty.IsTerminal(os.Stderr.Fd()) || size >= 0 && size < 8<<20 {
		return nil
	}
	return progressbar.NewOptions64(size, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription("replay"), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
}

type learnCmd struct {
	Output string `short:"o" placeholder:"FILE" help:"Write the configuration there, which must not exist yet; without it, to standard output."`
	logFormat
	Lateness time.Duration `default:"10m" help:"How far behind by time a line may stand and still be put in order."`
	MaxSpool int64         `default:"4294967296" placeholder:"BYTES" help:"Most bytes of standard input, or of a pipe, that are kept in a temporary file to be read again."`
	Files    []string      `arg:"" name:"file" help:"Access logs, plain or compressed with gzip, bzip2, xz or zstd; - is standard input."`
}

// Run writes the configuration to standard output, what people
// read beside it to standard error.
func (c *learnCmd) Run(ctx context.Context, k *kong.Kong) error {
	if c.Output != "" {
		if _, err := os.Lstat(c.Output); err == nil {
			return fmt.Errorf("learn: %s exists; remove it or write somewhere else", c.Output)
		}
	}
	logs, err := reopenable(c.Files, c.MaxSpool)
	if err != nil {
		return err
	}
	defer logs.Close()
	cfg := learn.Config{Lateness: c.Lateness}
	if cfg.Format, err = c.format(); err != nil {
		return err
	}
	if bar := progress(logs.size * learn.Passes); bar != nil {
		cfg.Progress = func(pass int, bytes int64) { _ = bar.Set64(int64(pass-1)*logs.size + bytes) }
		defer func() { _ = bar.Clear() }()
	}
	proposal, err := learn.Learn(ctx, cfg, func() ([]replay.Source, error) {
		return logs.sources(func(f *os.File) io.Reader { return io.NewSectionReader(f, 0, 1<<62) }), nil
	})
	if err != nil {
		return err
	}
	if err := proposal.Write(k.Stderr); err != nil {
		return err
	}
	if c.Output == "" {
		return proposal.WriteYAML(k.Stdout)
	}
	f, err := os.OpenFile(c.Output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("learn: --output: %w", err)
	}
	fmt.Fprintf(k.Stderr, "%s: what happens with it: hotparam replay --config %s %s\n", c.Output, c.Output, c.Files[0])
	return errors.Join(proposal.WriteYAML(f), f.Close())
}

// reopenable opens logs that can be read several times from their beginning. What can be read only once, standard input
// and pipes, is copied to a temporary file that has no name any more when this returns: it goes with the process.
func reopenable(paths []string, maxSpool int64) (*logFiles, error) {
	l, err := openLogs(paths)
	if err != nil {
		return nil, err
	}
	l.size = 0
	for i, f := range l.files {
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			l.files[i], err = spool(f, maxSpool)
		}
		if err == nil {
			info, err = l.files[i].Stat()
		}
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("learn: %s: %w", l.names[i], err)
		}
		l.size += info.Size()
	}
	return l, nil
}

func spool(from *os.File, most int64) (*os.File, error) {
	defer from.Close()
	f, err := os.CreateTemp("", "hotparam-learn-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	var n int64
	if err == nil {
		n, err = io.Copy(f, io.LimitReader(from, most+1))
	}
	if err == nil && n > most {
		err = fmt.Errorf("more than --max-spool %d bytes; write it to a file and name that", most)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
