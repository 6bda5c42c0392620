// Package carbon reads the configuration of Graphite's carbon from its directory: which metrics it stores, how finely,
// and how fast it makes new files. It reads carbon.conf, storage-schemas.conf and storage-aggregation.conf, writes
// nothing and opens no connection.
package carbon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Inspection holds the facts in the files of the directory. Package doctor judges them.
type Inspection struct {
	Dir string
	// Settings are the settings of the section [cache] of carbon.conf by their name in capitals, as they are written. A
	// setting that is absent has carbon's default.
	Settings map[string]string
	// Schemas and Aggregations are in the order of the file: the first entry whose pattern matches applies.
	Schemas      []Schema
	Aggregations []Aggregation
	// Problems describe files and entries that could not be read or understood, with file and line.
	Problems []string
}

// entry is a section of a file for the metrics that its pattern matches.
type entry struct {
	Name, Pattern string
	Line          int
	match         *regexp.Regexp // nil if the pattern cannot be tried here
}

func (e entry) compiledPattern() *regexp.Regexp { return e.match }

type Schema struct {
	entry
	// Retentions are the retentions as they are written, the finest first. Step and Keep belong to the first of them.
	Retentions string
	Step, Keep time.Duration
}

type Aggregation struct {
	entry
	// XFilesFactor is the share of points that must be there, or -1 if it is not written, so that carbon's 0.5 applies.
	XFilesFactor float64
	// Method is "average" if it is not written.
	Method string
}

// Inspect reads a directory. A missing file is a problem like others.
func Inspect(dir string) Inspection {
	in := Inspection{Dir: dir, Settings: map[string]string{}}
	for _, s := range in.readSections("carbon.conf") {
		if s.name == "cache" {
			for name, v := range s.values {
				in.Settings[strings.ToUpper(name)] = v
			}
		}
	}
	for _, s := range in.readSections("storage-schemas.conf") {
		in.Schemas = append(in.Schemas, in.schemaOf(s))
	}
	for _, s := range in.readSections("storage-aggregation.conf") {
		in.Aggregations = append(in.Aggregations, in.aggregationOf(s))
	}
	return in
}

// SchemaOf returns the schema by which carbon stores a metric, or nil if no pattern matches, or if a pattern that
// cannot be tried comes before.
func (in Inspection) SchemaOf(metric string) *Schema { return findEntry(in.Schemas, metric) }

// AggregationOf returns the aggregation of a metric, or nil as SchemaOf.
func (in Inspection) AggregationOf(metric string) *Aggregation {
	return findEntry(in.Aggregations, metric)
}

func findEntry[T interface{ compiledPattern() *regexp.Regexp }](list []T, metric string) *T {
	i := slices.IndexFunc(list, func(e T) bool {
		return e.compiledPattern() == nil || e.compiledPattern().MatchString(metric)
	})
	if i < 0 || list[i].compiledPattern() == nil {
		return nil
	}
	return &list[i]
}

// section is one "[name]" of a file with its settings.
type section struct {
	file   string
	name   string
	line   int
	values map[string]string
}

const maxFile = 4 << 20

// readSections reads a file as Python's ConfigParser does: "name = value" or "name: value", comments by # and ;.
func (in *Inspection) readSections(file string) []section {
	path := filepath.Join(in.Dir, file)
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxFile {
		err = fmt.Errorf("it has %d bytes", info.Size())
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		in.addProblem(path, 0, "there is no such file")
		return nil
	}
	if err != nil {
		in.addProblem(path, 0, err.Error())
		return nil
	}
	return in.parse(file, string(data))
}

func (in *Inspection) parse(file, text string) []section {
	var out []section
	n := 0
	for raw := range strings.Lines(text) {
		n++
		line := strings.TrimSpace(raw)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			out = append(out, section{file: filepath.Join(in.Dir, file), name: line[1 : len(line)-1], line: n,
				values: map[string]string{}})
		default:
			at := strings.IndexAny(line, "=:")
			if at < 0 || len(out) == 0 {
				in.addProblem(filepath.Join(in.Dir, file), n,
					fmt.Sprintf("%.60q is neither a section nor a setting", line))
				continue
			}
			name := strings.TrimSpace(line[:at])
			out[len(out)-1].values[strings.ToLower(name)] = strings.TrimSpace(line[at+1:])
		}
	}
	return out
}

func (in *Inspection) addProblem(path string, line int, text string) {
	if line > 0 {
		path += ":" + strconv.Itoa(line)
	}
	in.Problems = append(in.Problems, path+": "+text)
}

// entryOf returns the entry of a section. A pattern that cannot be compiled is a problem.
func (in *Inspection) entryOf(s section) entry {
	re, err := regexp.Compile(s.values["pattern"])
	if err != nil || s.values["pattern"] == "" {
		in.addProblem(s.file, s.line,
			fmt.Sprintf("section [%s]: pattern %q cannot be tried: which metrics it takes is not known", s.name,
				s.values["pattern"]))
		re = nil
	}
	return entry{Name: s.name, Pattern: s.values["pattern"], Line: s.line, match: re}
}

func (in *Inspection) schemaOf(s section) Schema {
	out := Schema{entry: in.entryOf(s), Retentions: s.values["retentions"]}
	first, _, _ := strings.Cut(out.Retentions, ",")
	step, keep, ok := strings.Cut(strings.TrimSpace(first), ":")
	var errs [2]error
	out.Step, errs[0] = parseDuration(step, time.Second)
	out.Keep, errs[1] = parseDuration(keep, out.Step) // a bare number counts points
	if !ok || errs[0] != nil || errs[1] != nil {
		in.addProblem(s.file, s.line, fmt.Sprintf("section [%s]: retentions %q are not written as 1s:6h,1m:7d", s.name,
			out.Retentions))
	}
	return out
}

func (in *Inspection) aggregationOf(s section) Aggregation {
	out := Aggregation{entry: in.entryOf(s), XFilesFactor: -1, Method: cmp.Or(s.values["aggregationmethod"], "average")}
	if text := s.values["xfilesfactor"]; text != "" {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			in.addProblem(s.file, s.line, fmt.Sprintf("section [%s]: xFilesFactor %q is not a number", s.name, text))
			return out
		}
		out.XFilesFactor = f
	}
	return out
}

// parseDuration reads 60, 60s, 10min, 7d, 1y; a number without a unit is multiplied by bare.
func parseDuration(text string, bare time.Duration) (time.Duration, error) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > 1e9 {
		return 0, fmt.Errorf("carbon: %q is not a time such as 10s or 7d", text)
	}
	unit := text[len(digits):]
	if unit == "" {
		return time.Duration(n) * bare, nil
	}
	const day = 24 * time.Hour
	for _, u := range []struct {
		name string
		d    time.Duration
	}{{"seconds", time.Second}, {"minutes", time.Minute}, {"hours", time.Hour}, {"days", day}, {"weeks", 7 * day},
		{"years", 365 * day}} {
		if strings.HasPrefix(u.name, unit) {
			return time.Duration(n) * u.d, nil
		}
	}
	return 0, fmt.Errorf("carbon: %q has an unknown unit", text)
}
