//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Scripts are text in the binary. To compile one binary for each fault in them would
// be half of all the work, so there is one for all: in it package lua reads its files
// when the program starts, from the directory that scriptsEnv names.
const scriptsEnv = "MUTATE_SCRIPTS"

const readScripts = `package lua

import "os"

func read(name string) string {
	text, err := os.ReadFile(os.Getenv("` + scriptsEnv + `") + "/" + name)
	if err != nil {
		panic(err)
	}
	return string(text)
}
`

var embedded = regexp.MustCompile(`//go:embed (\S+)\n\t(\w+) string`)

// inScript is whether a fault is in a script.
func (f fault) inScript() bool { return filepath.Ext(f.file) == ".lua" }

// compileScripts builds the tests of a package so that they read the scripts.
func (b *bench) compileScripts(ctx context.Context, pkg string) (bin string, err error) {
	files, err := filepath.Glob(filepath.Join(b.root, "lua", "embed*.go"))
	if err != nil {
		return "", err
	}
	replace, found := map[string]string{}, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		found += len(embedded.FindAll(text, -1))
		replace[file] = embedded.ReplaceAllString(string(text), `$2 = read("$1")`)
	}
	if scripts, err := filepath.Glob(filepath.Join(b.root, "lua", "*.lua")); err != nil || found != len(scripts) {
		return "", fmt.Errorf("package lua embeds %d of %d scripts in the form that is known here: %w", found,
			len(scripts), err)
	}
	replace[filepath.Join(b.root, "lua", "read.go")] = readScripts
	name := binName(pkg) + "-scripts"
	overlay, err := b.overlay(name, replace)
	if err != nil {
		return "", err
	}
	return b.compile(ctx, pkg, name, overlay)
}

// plantScript writes all scripts to a directory, one of them with the fault.
func (b *bench) plantScript(f fault) (dir string, err error) {
	text, err := f.plant(b.root)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(b.dir, f.name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(b.root, "lua"))); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, filepath.Base(f.file)), []byte(text), 0o600)
}

// overlay writes texts that take the place of files, by their paths, and the list
// that "go build -overlay" reads.
func (b *bench) overlay(name string, texts map[string]string) (string, error) {
	replace, n := map[string]string{}, 0
	for file, text := range texts {
		n++
		changed := filepath.Join(b.dir, fmt.Sprint(name, n, filepath.Ext(file)))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[file] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.dir, name+".json")
	return path, os.WriteFile(path, list, 0o600)
}

func binName(pkg string) string { return strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-") }
