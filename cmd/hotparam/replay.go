package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

type replayCmd struct {
	Privacy  config.Privacy `embed:"" prefix:"privacy."`
	Config   string         `short:"c" placeholder:"FILE" help:"YAML file with the rules."`
	Format   string         `enum:"auto,combined,events,jsonl" default:"auto" help:"Form of the lines: ${enum}. events is tab-separated: unix_seconds client method target."`
	JSON     string         `name:"json" placeholder:"FILE" help:"Write the result as one JSON document; - is standard output, without the report."`
	Speed    string         `default:"max" help:"max, or how many seconds of the log pass in one: 1 is as it was. Changes nothing in the result."`
	Lateness time.Duration  `default:"10m" help:"How far behind by time a line may stand and still be put in order."`
	MaxKeys  int            `default:"1000000" help:"Most keys, and most clients, that get a line of their own."`
	Top      int            `default:"20" help:"Rows of a table in the report."`
	Files    []string       `arg:"" name:"file" help:"Access logs, plain or gzip; - is standard input."`
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
	logs, size, err := openLogs(c.Files)
	if err != nil {
		return err
	}
	defer closeLogs(logs)
	cfg := replay.Config{Rules: set, Lateness: c.Lateness, MaxKeys: c.MaxKeys, Speed: speed}
	if c.Format != "auto" {
		cfg.Format = accesslog.Format(c.Format)
	}
	bar := progress(size)
	if bar != nil {
		cfg.Progress = func(p replay.Progress) { _ = bar.Set64(p.Bytes) } // a bar that fails to draw does no harm
	}
	report, err := replay.Run(ctx, cfg, logs...)
	if bar != nil {
		_ = bar.Clear()
	}
	if report == nil {
		return err
	}
	return errors.Join(err, c.write(k.Stdout, report), allMalformed("replay", report))
}

// allMalformed is an error where a log has lines and none of them could be read.
func allMalformed(command string, r *replay.Report) error {
	if r.Requests > 0 || r.Malformed == 0 {
		return nil
	}
	return fmt.Errorf("%s: all %d lines are malformed; the first is %s:%d: %s; try --format",
		command, r.Malformed, r.Broken[0].Source, r.Broken[0].Line, r.Broken[0].Reason)
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
		return 0, usage("--speed %q: want max or a number above 0", s)
	}
	return v, nil
}

// openLogs opens all files before anything is read; size is their sum, -1 when
// standard input is among them.
func openLogs(paths []string) ([]replay.Source, int64, error) {
	var logs []replay.Source
	var size int64
	for _, path := range paths {
		if path == "-" {
			logs, size = append(logs, replay.Source{Name: "standard input", Reader: os.Stdin}), -1
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			closeLogs(logs)
			return nil, 0, fmt.Errorf("read the log: %w", err)
		}
		info, err := f.Stat()
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory; name its files", path)
		}
		if err != nil {
			closeLogs(logs)
			return nil, 0, fmt.Errorf("read the log: %w", err)
		}
		logs = append(logs, replay.Source{Name: path, Reader: f})
		if size >= 0 {
			size += info.Size()
		}
	}
	return logs, size, nil
}

func closeLogs(logs []replay.Source) {
	for _, l := range logs {
		if f, ok := l.Reader.(*os.File); ok && f != os.Stdin {
			f.Close()
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
