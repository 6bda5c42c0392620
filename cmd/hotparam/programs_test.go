package main

import (
	"testing"

	"github.com/hotparam/pipeline/internal/app/config"
)

// A program that is started as a command listens where the program itself does.
func TestProgramsKeepTheirAdminAddress(t *testing.T) {
	for program, listen := range map[string]func(*commands) string{
		"collector":       func(c *commands) string { return c.Collector.Admin.Listen },
		"aggregator":      func(c *commands) string { return c.Aggregator.Admin.Listen },
		"limiter-sidecar": func(c *commands) string { return c.Limiter.Admin.Listen },
		"serve":           func(c *commands) string { return c.Serve.Admin.Listen },
	} {
		var cli commands
		p, err := config.Build(&cli, name, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse([]string{program}); err != nil {
			t.Fatal(err)
		}
		if got, want := listen(&cli), config.DefaultAdmin(program); got != want {
			t.Errorf("%s: admin.listen %s, want %s", program, got, want)
		}
	}
}
