package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/operator/learn"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

type learnCmd struct {
	Output   string        `short:"o" placeholder:"FILE" help:"Write the configuration there, which must not exist yet; without it, to standard output."`
	Format   string        `enum:"auto,combined,events,jsonl" default:"auto" help:"Form of the lines: ${enum}. events is tab-separated: unix_seconds client method target."`
	Lateness time.Duration `default:"10m" help:"How far behind by time a line may stand and still be put in order."`
	MaxSpool int64         `default:"4294967296" placeholder:"BYTES" help:"Most bytes of standard input, or of a pipe, that are kept in a temporary file to be read again."`
	Files    []string      `arg:"" name:"file" help:"Access logs, plain or gzip; - is standard input."`
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
	if c.Format != "auto" {
		cfg.Format = accesslog.Format(c.Format)
	}
	if bar := progress(logs.size * learn.Passes); bar != nil {
		cfg.Progress = func(pass int, p replay.Progress) { _ = bar.Set64(int64(pass-1)*logs.size + p.Bytes) }
		defer func() { _ = bar.Clear() }()
	}
	proposal, err := learn.Learn(ctx, cfg, logs.open)
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

// logFiles are logs that can be read several times from their beginning.
type logFiles struct {
	names []string
	files []*os.File
	size  int64
}

// reopenable opens logs. What can be read only once, standard input and pipes, is
// copied to a temporary file that has no name any more when this returns: it goes
// with the process.
func reopenable(paths []string, maxSpool int64) (*logFiles, error) {
	l := &logFiles{}
	opened, _, err := openLogs(paths)
	if err != nil {
		return nil, err
	}
	for _, s := range opened {
		f, ok := s.Reader.(*os.File)
		if !ok {
			continue
		}
		l.names, l.files = append(l.names, s.Name), append(l.files, f)
	}
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

// spool copies what can be read once to a file.
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

// open gives all logs from their beginning.
func (l *logFiles) open() ([]replay.Source, error) {
	var sources []replay.Source
	for i, f := range l.files {
		sources = append(sources, replay.Source{Name: l.names[i], Reader: io.NewSectionReader(f, 0, 1<<62)})
	}
	return sources, nil
}

// Close closes all files.
func (l *logFiles) Close() {
	for _, f := range l.files {
		f.Close()
	}
}
