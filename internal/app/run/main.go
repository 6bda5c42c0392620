package run

import (
	"context"

	"github.com/hotparam/pipeline/internal/app/config"
)

// Main is the whole main function of a program with one command: it reads the
// settings C, runs the program until a signal, and gives the exit code: 0 ok,
// 1 error, 2 usage.
func Main[C any](name, description string, program func(context.Context, C, *config.Parser, string) error) int {
	var cfg C
	return config.Main(&cfg, name, description, func(p *config.Parser) error {
		ctx, stop := Context()
		defer stop()
		return program(ctx, cfg, p, config.Version())
	})
}
