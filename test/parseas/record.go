package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
)

// fuzzed are the upstreams that get mutated targets: they need neither a compiler nor a server of their own.
var fuzzed = []string{"express4", "express5", "koa-router", "fastify", "hono", "node-URL", "node-url.parse", "django",
	"flask", "fastapi", "go-servemux", "php-S"}

// record sends n mutated targets to each upstream. It writes each target that some upstream reads as the value star on
// a line: quoted as in Go, a tab, and the names of the upstreams with commas.
func record(ctx context.Context, file, dir string, n int) error {
	ctx, cancel := context.WithCancel(ctx)
	l, err := newLab(dir)
	defer func() { cancel(); l.wait() }()
	if err != nil {
		return err
	}
	readBy := map[string][]string{}
	for _, name := range fuzzed {
		if err := l.start(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		w := &wire{addr: l.addrs[name]}
		r := rand.New(rand.NewPCG(1, 0)) // the same targets for all
		sent := map[string]bool{}
		for range n {
			target := mutant(r)
			if sent[target] || ctx.Err() != nil {
				continue
			}
			sent[target] = true
			if _, id := w.get(target); has(id, "star") {
				readBy[target] = append(readBy[target], name)
			}
		}
		w.close()
	}
	var lines []string
	for target, names := range readBy {
		lines = append(lines, strconv.QuoteToASCII(target)+"\t"+strings.Join(names, ","))
	}
	slices.Sort(lines)
	return os.WriteFile(file, bytes.TrimSpace([]byte(strings.Join(lines, "\n"))), 0o644) //nolint:gosec // of the repository
}
