package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/hotparam/pipeline/bench/internal/counters"
	"github.com/hotparam/pipeline/bench/internal/trace"
)

// jarSum is the SHA-256 of the jar that has the traces of requests.
const jarSum = "5c1be1b81c3375c3d5ff7931586ac48bc537b954c67faed0df6486150cc3107a"

// The rates of the clocks, in requests a second.
const webRate, ycsbRate = 2000, 20_000

// traces returns all traces, or if quick some short ones. jar may be empty: then the traces of requests are left out.
func traces(jar string, seed uint64, quick bool) ([]*trace.Trace, error) {
	n := 40 * ycsbRate
	if quick {
		n /= 4
	}
	var all []*trace.Trace
	clocked := func(name, about string, numbers []int64, rate int) {
		for _, bursts := range []bool{false, true} {
			if bursts {
				name, about = name+", bursts", about+", with bursts"
			}
			all = append(all, trace.Clocked(name, about, numbers, rate, bursts, seed))
		}
	}
	if jar != "" {
		for _, name := range []string{"web07", "web12"} {
			numbers, err := trace.Cache2k(jar, name)
			if err != nil {
				return nil, err
			}
			clocked(name, "requests of a product page (cache2k), 2000/s", numbers, webRate)
		}
	}
	clocked("zipfian", "YCSB: zipfian, a million items, 20,000/s", trace.Zipfian(n, seed), ycsbRate)
	if quick {
		return all, nil
	}
	all = append(all,
		trace.Clocked("hotspot", "YCSB: 100 of a million items have 80 %, 20,000/s", trace.Hotspot(n, seed), ycsbRate,
			false, seed),
		trace.Clocked("latest", "YCSB: the newest items are the most popular, a new one twice a second, 20,000/s",
			trace.Latest(n, ycsbRate/2, seed), ycsbRate, false, seed))
	all = append(all, trace.Shapes(seed)...)
	return append(all, trace.AgainstSpaceSaving(seed),
		trace.AgainstCountMin(counters.CountMinRows, counters.CountMinCell, seed),
		trace.AgainstHeavyKeeper(counters.HeavyKeeperRows, counters.HeavyKeeperCell(budget), seed),
		trace.AgainstSampling(seed)), nil
}

// fetchJar returns the jar with the traces of requests. Maven copies it into the user's cache.
func fetchJar() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("hot: %w", err)
	}
	dir := filepath.Join(cache, "hotparam-bench")
	file := filepath.Join(dir, "simulator-3.2.2.jar")
	if checkJar(file) == nil {
		return file, nil
	}
	copying := exec.Command("mvn", "-q", "dependency:copy", "-Dartifact="+trace.SimulatorArtifact,
		"-Dtransitive=false", "-DoutputDirectory="+dir)
	if out, err := copying.CombinedOutput(); err != nil {
		return "", fmt.Errorf("hot: mvn: %w\n%s", err, out)
	}
	return file, checkJar(file)
}

// checkJar reports whether a file is the jar that the benchmark was made with.
func checkJar(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("hot: %w", err)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != jarSum {
		return errors.New("hot: " + file + " is not " + trace.SimulatorArtifact)
	}
	return nil
}

// writeTraces writes each trace to a file of a directory.
func writeTraces(dir string, all []*trace.Trace) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("hot: %w", err)
	}
	for _, t := range all {
		if err := writeTrace(filepath.Join(dir, t.Name+".txt"), t); err != nil {
			return err
		}
		fmt.Printf("%s: %s, hot from %d on\n", t.Name, t.About, t.Hot)
	}
	return nil
}

func writeTrace(file string, t *trace.Trace) error {
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("hot: %w", err)
	}
	return errors.Join(t.Write(out), out.Close())
}

// readTrace reads a trace of the user.
func readTrace(file string, hot int) (*trace.Trace, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("hot: %w", err)
	}
	defer in.Close()
	t, err := trace.Read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	t.Name, t.Hot = filepath.Base(file), hot
	return t, nil
}
