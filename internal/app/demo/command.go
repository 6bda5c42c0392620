package demo

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/output"
)

// Command holds the flags of cmd/demo and of hotparam demo.
type Command struct {
	output.Flags
	Duration    time.Duration  `default:"40s" help:"Duration; 0: until Ctrl-C."`
	Topics      int            `default:"3000" help:"Topics of the site, 10 to 1000000."`
	Listen      string         `name:"proxy.listen" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of the proxy (default: a free port)."`
	Admin       string         `name:"admin.listen" placeholder:"HOST:PORT" help:"Address of the dashboard (default: 127.0.0.1:9180, or a free port if that one is taken)."`
	Denials     config.Denials `embed:"" prefix:"denials."`
	Headless    bool           `help:"No dashboard and no colours."`
	PrintConfig bool           `help:"Print the rules of the demo as a file to start from, and exit."`
}

// RunTo checks the flags and shows the demo on out. If the result is one value, the story goes to standard error, and
// the value to out at the end. serve is the command that puts the pipeline in front of the reader's own site. The demo
// names it at its end.
func (c Command) RunTo(ctx context.Context, out io.Writer, serve string, log *slog.Logger) error {
	if c.PrintConfig {
		return c.Print(out, map[string]string{"config": string(Rules)}, func(out io.Writer) error {
			_, err := out.Write(Rules)
			return err
		})
	}
	if c.Topics < 10 || c.Topics > 1_000_000 {
		return config.Usage("--topics %d must be 10 to 1000000", c.Topics)
	}
	if c.Duration < 0 || c.Duration > 0 && c.Duration < 10*time.Second {
		return config.Usage("--duration %v must be at least 10s, or 0 for no end", c.Duration)
	}
	opts := Options{Command: c, Out: out, Serve: serve, Log: log,
		Color: !c.Headless && !c.IsValue() && isatty.IsTerminal(os.Stdout.Fd()) && os.Getenv("NO_COLOR") == ""}
	if c.IsValue() {
		opts.Out = os.Stderr
		opts.Result = func(r Result) error { return c.Print(out, r, nil) }
	}
	switch {
	case c.Headless:
		opts.Admin = ""
	case opts.Admin == "":
		opts.Admin = freeAddress(ctx, config.DefaultAdmin("hotparam"))
	}
	return Run(ctx, opts)
}
