package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/learn"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

type learnCmd struct {
	outputFlags
	Out string `placeholder:"FILE" help:"File for the configuration, which must not exist yet; default: standard output."`
	logFormat
	Proxies  []string      `name:"ip.trusted_proxies" placeholder:"NETWORK" help:"Addresses or networks of proxies whose X-Forwarded-For in the log names clients, beside loopback and private networks; the file gets them too."`
	Lateness time.Duration `default:"10m" help:"Maximum time by which a line may be late and still be sorted."`
	MaxSpool int64         `default:"4294967296" placeholder:"BYTES" help:"Maximum bytes of standard input, or of a pipe, that are kept in a temporary file for a second reading."`
	Files    []string      `arg:"" name:"file" help:"Access logs, or directories of them, plain or compressed with gzip, bzip2, xz or zstd; - is standard input."`
}

// Run writes the configuration to standard output or to the file of --out, and the summary for people to standard
// error.
func (c *learnCmd) Run(ctx context.Context, k *kong.Kong) error {
	if c.Out != "" {
		if _, err := os.Lstat(c.Out); err == nil {
			return fmt.Errorf("learn: %s exists; remove it or write somewhere else", c.Out)
		}
	}
	logs, err := openForRereading(c.Files, c.MaxSpool)
	if err != nil {
		return err
	}
	defer logs.Close()
	cfg := learn.Config{Lateness: c.Lateness}
	if cfg.Format, err = c.format(); err != nil {
		return err
	}
	for _, text := range c.Proxies {
		network, err := rules.ParseNetwork(text)
		if err != nil {
			return config.Usage("--ip.trusted_proxies: %w", err)
		}
		cfg.TrustedProxies = append(cfg.TrustedProxies, network)
	}
	if bar := newProgressBar(logs.size * learn.Passes); bar != nil {
		cfg.Progress = func(pass int, bytes int64) { _ = bar.Set64(int64(pass-1)*logs.size + bytes) }
		defer func() { _ = bar.Clear() }()
	}
	proposal, err := learn.Learn(ctx, cfg, func() ([]replay.Source, error) {
		return logs.replaySources(func(f *os.File) io.Reader { return io.NewSectionReader(f, 0, 1<<62) }), nil
	})
	if err != nil {
		return err
	}
	return c.write(k, proposal)
}

// write writes the summary of a proposal, and its configuration to the file of --out or to standard output.
func (c *learnCmd) write(k *kong.Kong, p *learn.Proposal) error {
	var summary, text bytes.Buffer
	if err := errors.Join(p.Write(&summary), p.WriteYAML(&text)); err != nil {
		return err
	}
	if !c.IsValue() {
		fmt.Fprintf(k.Stderr, "%s", &summary)
	}
	if c.Out != "" {
		f, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("learn: --out: %w", err)
		}
		_, err = f.Write(text.Bytes())
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(k.Stderr, "%s: what happens with it: hotparam replay --config %s%s %s\n", c.Out, shellWord(c.Out),
			c.shellArguments(), shellWord(c.Files[0]))
	}
	return c.Print(k.Stdout, map[string]string{"config": text.String(), "summary": summary.String()},
		func(out io.Writer) error {
			if c.Out != "" {
				return nil
			}
			_, err := out.Write(text.Bytes())
			return err
		})
}

// openForRereading opens logs so that they can be read several times from their beginning. Standard input and pipes can
// be read only once, so they are copied to a temporary file. The file has no name when openForRereading returns, so it
// is removed with the process.
func openForRereading(paths []string, maxSpool int64) (*logFiles, error) {
	l, err := openLogs(paths)
	if err != nil {
		return nil, err
	}
	l.size = 0
	for i, f := range l.files {
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			l.files[i], err = spoolFile(f, maxSpool)
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

func spoolFile(from *os.File, most int64) (*os.File, error) {
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
