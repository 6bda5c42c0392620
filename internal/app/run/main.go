package run

import (
	"context"
	"os"

	"github.com/hotparam/pipeline/internal/app/config"
)

// Main is the whole main function of a program with one command: it reads the
// settings C, runs the program until a signal, and gives the exit code: 0 ok,
// 1 error, 2 usage.
func Main[C any](name, description string, program func(context.Context, C, *config.Parser, string) error) int {
	var cfg C
	p, err := config.Build(&cfg, name, description)
	if err != nil {
		return config.Fail(os.Stderr, name, err)
	}
	if _, err = p.Parse(os.Args[1:]); err == nil {
		ctx, stop := Context()
		defer stop()
		err = program(ctx, cfg, p, config.Version())
	}
	return p.Fail(os.Stderr, err)
}
