//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Scripts are text in the binary. To compile one binary for each fault in them would
// be half of all the work, so there is one for all: in it package lua reads its files
// when the program starts, from the directory that scriptsEnv names.
const scriptsEnv = "MUTATE_SCRIPTS"

const readScripts = `package lua

import (
	"io/fs"
	"os"
	"slices"
	"strings"
)

type directory struct{ fs.FS }

var files = directory{os.DirFS(os.Getenv("` + scriptsEnv + `"))}

func (d directory) ReadFile(name string) ([]byte, error) { return fs.ReadFile(d.FS, name) }

func (d directory) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(d.FS, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".lua") }), err
}
`

// embedScripts is the code by which package lua embeds its files.
const embedScripts = "\n//go:embed *.lua\nvar files embed.FS\n"

// deployEnv names the directory from which test/gateways takes the files of deploy/.
const deployEnv = "MUTATE_DEPLOY"

// inScript reports whether a fault is in a script.
func (f fault) inScript() bool {
	tree, _ := f.tree()
	return tree == "lua"
}

// tree returns the folder of a fault in a file that tests read when they run, and the environment variable that
// replaces the folder, or "" if the fault is in code.
func (f fault) tree() (folder, env string) {
	switch folder, _, _ = strings.Cut(f.file, "/"); folder {
	case "lua":
		return folder, scriptsEnv
	case "deploy":
		return folder, deployEnv
	}
	return "", ""
}

// compileScripts builds the tests of a package so that they read the scripts.
func (b *bench) compileScripts(ctx context.Context, pkg string) (bin string, err error) {
	replace, err := readsScripts(b.root)
	if err != nil {
		return "", err
	}
	name := binName(pkg) + "-scripts"
	overlay, err := b.overlay(name, replace)
	if err != nil {
		return "", err
	}
	return b.compile(ctx, pkg, name, overlay)
}

// readsScripts are the files of package lua that read the scripts when the program starts.
func readsScripts(root string) (map[string]string, error) {
	file := filepath.Join(root, "lua", "embed.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	code := string(text)
	for _, part := range []string{embedScripts, "\t\"embed\"\n"} {
		if strings.Count(code, part) != 1 {
			return nil, fmt.Errorf("%s does not embed its scripts in the form that is known here: want %q once", file, part)
		}
		code = strings.Replace(code, part, "", 1)
	}
	return map[string]string{file: code, filepath.Join(root, "lua", "read.go"): readScripts}, nil
}

// plantIn writes all files of a folder to a directory, one of them with the fault.
func (b *bench) plantIn(folder string, f fault) (dir string, err error) {
	text, err := f.plant(b.root)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(b.dir, f.name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(b.root, folder))); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, strings.TrimPrefix(f.file, folder)), []byte(text), 0o600)
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
