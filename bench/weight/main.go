// Command weight prints the cost of each module of a program: its packages, the processor seconds of compiling them
// with an empty cache, one job at a time, and the bytes of its symbols. In the folder above this module:
//
//	GOCACHE=$(mktemp -d) go build -p 1 -trimpath -debug-actiongraph=/tmp/graph.json -o /tmp/hotparam ./cmd/hotparam
//	go run -C bench ./weight /tmp/graph.json /tmp/hotparam ./cmd/hotparam
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// price holds the cost of a module or a package.
type price struct {
	packages int
	seconds  float64
	bytes    int64
}

// largest bounds the size of a symbol, because the linker reports enormous sizes for some symbols that hold no bytes in
// the file.
const largest = 8 << 20

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: weight GRAPH BINARY PACKAGE")
	}
	module := modules(os.Args[3])
	byModule, byPackage := map[string]*price{}, map[string]*price{}
	addSeconds(os.Args[1], func(pkg string, seconds float64) {
		p := entry(byModule, module[pkg])
		p.packages++
		p.seconds += seconds
		entry(byPackage, pkg).seconds += seconds
	})
	for _, line := range strings.Split(run("go", "tool", "nm", "-size", os.Args[2]), "\n") {
		f := strings.Fields(line) // address, size, type, name
		if len(f) < 4 || strings.Contains("bBU", f[2]) {
			continue
		}
		size, err := strconv.ParseInt(f[1], 10, 64)
		if pkg := packageOf(f[3]); err == nil && size < largest && module[pkg] != "" {
			entry(byModule, module[pkg]).bytes += size
			entry(byPackage, pkg).bytes += size
		}
	}
	show("module", byModule, 1000)
	show("package", byPackage, 40)
}

func entry(m map[string]*price, name string) *price {
	if m[name] == nil {
		m[name] = new(price)
	}
	return m[name]
}

// modules returns the module of each package that a program links.
func modules(program string) map[string]string {
	of := map[string]string{}
	const format = "{{.ImportPath}} {{with .Module}}{{.Path}}{{else}}std{{end}}"
	for _, line := range strings.Split(run("go", "list", "-C", "..", "-deps", "-f", format, program), "\n") {
		pkg, module, _ := strings.Cut(line, " ")
		of[pkg] = module
	}
	return of
}

// addSeconds reads the action graph of a build.
func addSeconds(file string, add func(pkg string, seconds float64)) {
	data, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var actions []struct {
		Mode, Package   string
		CmdUser, CmdSys int64 // nanoseconds
	}
	if err := json.Unmarshal(data, &actions); err != nil {
		log.Fatal(err)
	}
	for _, a := range actions {
		if a.Mode == "build" {
			add(a.Package, float64(a.CmdUser+a.CmdSys)/1e9)
		}
	}
}

// packageOf returns the package in the name of a symbol: everything before the first dot behind the last slash.
func packageOf(symbol string) string {
	for _, prefix := range []string{"type:.eq.", "type:.hash.", "type:", "go:itab."} {
		symbol = strings.TrimPrefix(symbol, prefix)
	}
	symbol = strings.TrimLeft(symbol, "*[](")
	path, _, _ := strings.Cut(symbol, "[") // type arguments have slashes of their own
	slash := strings.LastIndexByte(path, '/') + 1
	name, _, _ := strings.Cut(path[slash:], ".")
	return strings.ReplaceAll(path[:slash]+name, "%2e", ".")
}

func show(what string, prices map[string]*price, most int) {
	names := slices.SortedFunc(maps.Keys(prices), func(a, b string) int {
		return cmp.Or(cmp.Compare(prices[b].seconds, prices[a].seconds), cmp.Compare(a, b))
	})
	fmt.Printf("%-55s %8s %8s %8s\n", what, "packages", "seconds", "kB")
	for _, name := range names[:min(most, len(names))] {
		p := prices[name]
		fmt.Printf("%-55s %8d %8.1f %8d\n", name, p.packages, p.seconds, p.bytes/1000)
	}
}

func run(name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		log.Fatal(err)
	}
	return string(out)
}
