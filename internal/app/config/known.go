package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"
)

// settingIndex holds the dotted settings of all programs by name.
type settingIndex struct {
	flags    map[string]*kong.Flag
	programs map[string][]string // the programs that have the setting, as commands of hotparam
}

// allSettings returns the dotted settings of all programs.
var allSettings = sync.OnceValue(func() settingIndex {
	s := settingIndex{map[string]*kong.Flag{}, map[string][]string{}}
	for program, cli := range map[string]any{"collector": &Collector{}, "aggregator": &Aggregator{},
		"limiter-sidecar": &Sidecar{}, "serve": &Serve{}, "doctor": &Doctor{}} {
		k, err := kong.New(cli, tagVariables(""))
		if err != nil {
			panic("config: a program's settings do not build: " + err.Error()) // a mistake here, which every test finds
		}
		for _, flag := range k.Model.Flags {
			if isSetting(flag) {
				s.flags[flag.Name] = flag
				s.programs[flag.Name] = append(s.programs[flag.Name], program)
				slices.Sort(s.programs[flag.Name])
			}
		}
	}
	return s
})

// knownFlags returns the settings that are allowed in a file.
func knownFlags() map[string]*kong.Flag { return allSettings().flags }

// programSections returns the top-level names of the file that belong to programs.
func programSections() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(knownFlags())) {
		section, _, _ := strings.Cut(name, ".")
		out = append(out, section)
	}
	return slices.Compact(out)
}

func isSection(name string) bool { return slices.Contains(programSections(), name) }

// foreignSettingError returns the error about a setting of other programs on the command line, or nil if err has
// another cause.
func (p *Parser) foreignSettingError(args []string, err error) error {
	wrong := new(kong.ParseError)
	if !errors.As(err, &wrong) {
		return nil
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		programs := allSettings().programs[name]
		if name == arg || len(programs) == 0 || slices.ContainsFunc(wrong.Context.Flags(),
			func(f *kong.Flag) bool { return f.Name == name }) {
			continue
		}
		return fmt.Errorf("--%s: %s has no such setting; of the commands of hotparam these have it: %s", name,
			cmp.Or(p.command, p.Kong.Model.Name), strings.Join(programs, ", "))
	}
	return nil
}

// serverSettings are the settings of serve that need gRPC or a client of a server. A name that ends in a dot is a
// section.
var serverSettings = []string{"rules", "redis.", "etcd.", "envoy."}

func needsServer(name string) bool {
	section, _, dotted := strings.Cut(name, ".")
	return slices.Contains(serverSettings, name) || dotted && slices.Contains(serverSettings, section+".")
}

// Option changes how [Build] makes a parser.
type Option = kong.Option

// OneProcess is an option of [Build] for a program without clients of servers and without gRPC. The help of such a
// program does not show the settings of serve that need them. They are still parsed, because a file may have them for
// other programs.
func OneProcess() Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		for _, flag := range k.Model.Flags {
			flag.Hidden = flag.Hidden || needsServer(flag.Name)
		}
		return nil
	})
}

// CheckOneProcess returns an error for a setting that needs a server, if a flag or a variable sets it for this program.
// A setting in the file is not an error, because many programs may read the same file.
func (p *Parser) CheckOneProcess() error {
	for _, name := range slices.Sorted(maps.Keys(p.settings)) {
		if needsServer(name) && p.SetForOne(name) {
			return InOneProcess(name)
		}
	}
	return nil
}

// InOneProcess returns the error about a setting that this program does not support.
func InOneProcess(setting string) error {
	return Usage("--%s: this program runs in one process, without clients of servers and gRPC; "+
		"hotparam serve has this setting (go run ./cmd/hotparam serve)", setting)
}
