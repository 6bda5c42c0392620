// Command against measures a program of this module beside the same program of an older commit. One compiler builds
// both, the older one in a git worktree of its own, and they run in turn, one round at a time.
//
//	go run ./internal/against [-rounds 5] c59901f ./redis -callers 1,64 -only hotparam
//
// It prints the rows of hotparam that both have under the same name. Peers run only if the program's own flags do not
// leave them out, and are not printed.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds; each build runs once in each")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: against [-rounds n] commit ./program [flags of the program]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, flag.Arg(0), flag.Arg(1), flag.Args()[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "against:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, commit, program string, args []string) error {
	dir, err := os.MkdirTemp("", "against")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	older, builds := filepath.Join(dir, "tree"), map[string]string{
		measure.Ours: filepath.Join(dir, "now"), commit: filepath.Join(dir, "before")}
	if _, err := execute(ctx, ".", "git", "worktree", "add", "--detach", older, commit); err != nil {
		return err
	}
	defer func() { _, _ = execute(context.Background(), ".", "git", "worktree", "remove", "--force", older) }()
	if _, err := execute(ctx, ".", "go", "build", "-o", builds[measure.Ours], program); err != nil {
		return err
	}
	if _, err := execute(ctx, filepath.Join(older, "bench"), "go", "build", "-o", builds[commit], program); err != nil {
		return err
	}
	var all tables
	var cases []func() error
	for _, who := range []string{measure.Ours, commit} {
		cases = append(cases, func() error {
			out, err := execute(ctx, ".", builds[who], append([]string{"-rounds", "1"}, args...)...)
			if err != nil {
				return err
			}
			return all.read(who, string(out))
		})
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return err
	}
	return all.write(os.Stdout)
}

// execute runs a program until it ends and returns its standard output.
func execute(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %q: %w: %s", name, args, err, errs.Bytes())
	}
	return out.Bytes(), nil
}
