package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// peer is a program that is compared. It is installed in a directory of its own, whose name has the version, so that
// another version is another directory.
type peer struct {
	name, version string
	program       string // path in its directory
	install       func(ctx context.Context, dir, version string) *exec.Cmd
}

// The programs and their versions. nginx is the one in the PATH.
var (
	gubernator = peer{"gubernator", "v2.21.0", "gubernator",
		goInstall("github.com/gubernator-io/gubernator/v2/cmd/gubernator")}
	// Versions of envoyproxy/ratelimit after v1.4.0 have no tags.
	ratelimit = peer{"envoyproxy/ratelimit", "v1.4.1-0.20260122083618-3fb702589d36", "service_cmd",
		goInstall("github.com/envoyproxy/ratelimit/src/service_cmd")}
	// The crate needs protoc for its protocol gRPC, also if that is not used.
	throttlecrab = peer{"throttlecrab-server", "0.4.40", "bin/throttlecrab-server", cargoInstall("throttlecrab-server")}
)

// installed holds the programs that fetchPeers installs.
var installed = []peer{gubernator, ratelimit, throttlecrab}

// fetchPeers installs the programs that are not in dir and whose contenders are compared. It returns the errors of
// programs that cannot be had, by the names of their contenders.
func fetchPeers(ctx context.Context, dir string, only *regexp.Regexp) (missing map[string]error) {
	missing = map[string]error{}
	for _, p := range installed {
		if !only.MatchString(p.name) {
			continue
		}
		if err := p.fetch(ctx, dir); err != nil {
			missing[p.name] = err
		}
	}
	if _, err := exec.LookPath("nginx"); err != nil {
		missing["nginx"] = err
	}
	return missing
}

// folder returns the name of the program's own directory in the directory of all.
func (p peer) folder() string { return filepath.Base(p.name) + "@" + p.version }

// path returns the path of the program in the directory of all.
func (p peer) path() string { return filepath.Join(p.folder(), filepath.FromSlash(p.program)) }

func (p peer) fetch(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, p.path())); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	own, err := filepath.Abs(filepath.Join(dir, p.folder()))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	cmd := p.install(ctx, own, p.version)
	cmd.Dir, cmd.Stdout, cmd.Stderr = own, os.Stderr, os.Stderr
	fmt.Fprintln(os.Stderr, "limit:", cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w", cmd, err)
	}
	return nil
}

// goInstall returns a command that builds a Go program, without the user's flags for modules such as -mod=vendor.
func goInstall(pkg string) func(context.Context, string, string) *exec.Cmd {
	return func(ctx context.Context, dir, version string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "nice", "go", "install", "-p", "1", pkg+"@"+version)
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-trimpath", "GOTOOLCHAIN=auto") // some need a newer Go
		return cmd
	}
}

func cargoInstall(crate string) func(context.Context, string, string) *exec.Cmd {
	return func(ctx context.Context, dir, version string) *exec.Cmd {
		return exec.CommandContext(ctx, "nice", "cargo", "install", "--locked", "-j", "1", "--version", version,
			"--root", dir, crate)
	}
}
