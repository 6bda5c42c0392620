// Package config is the configuration surface of the programs. It defines the settings of each program, the sources of
// their values, and the errors about wrong values.
//
// A setting comes from its flag, or else its environment variable, the YAML file, or its default. Its name is the same
// everywhere: --redis.addr, HOTPARAM_REDIS_ADDR, and addr in the section redis of the file. The rules (namespace,
// rules, ip, classes, overrides, limits) live only in the file and belong to package rules. One file serves all
// programs, so a section that this program does not use is checked but otherwise ignored.
//
// The package reads the environment and files.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/textfile"
)

// Build makes the parser of a program from its struct of settings. Flags may come from the environment (prefix
// HOTPARAM_) and from the file of --config.
func Build(cli any, name, description string, options ...Option) (*Parser, error) {
	f := &file{}
	p := &Parser{file: f}
	opts := append([]Option{
		kong.Name(name),
		kong.Description(description),
		kong.PostBuild(removeOtherVariables),
		kong.DefaultEnvars("HOTPARAM"),
		kong.Resolvers(f),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100}),
		kong.ValueFormatter(func(v *kong.Value) string { return v.Help }), // printHelp describes the variables
		kong.Help(p.printHelp),
		kong.ExplicitGroups(groups),
		kong.UsageOnError(),
		tagVariables(DefaultAdmin(name)),
	}, options...)
	k, err := kong.New(cli, opts...)
	if err != nil {
		return nil, fmt.Errorf("config: %s: %w", name, err)
	}
	p.Kong = k
	p.buildAgain = func() (*Parser, error) {
		return Build(reflect.New(reflect.TypeOf(cli).Elem()).Interface(), name, description, options...)
	}
	return p, nil
}

// tagVariables returns the variables that tags of settings use in ${}.
func tagVariables(admin string) kong.Vars {
	return kong.Vars{"admin_listen": admin, "log_formats": strings.Join(accesslog.Names(), ",")}
}

// shortSettings are the settings of programs, and of commands that call them, whose names have no dot.
var shortSettings = []string{
	"config", "rules", "upstream", "listen", "learn", "learn-out", "admin", "admin-ca", "author",
}

// removeOtherVariables removes the environment variables of flags that are not settings. Such flags are meant for one
// command: a variable such as HOTPARAM_FOR would set the life of an override in one command and the length of a trace
// in the next.
func removeOtherVariables(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && len(flag.Envs) == 0 && !strings.Contains(flag.Name, ".") &&
			!slices.Contains(shortSettings, flag.Name) {
			flag.Envs = []string{"-"} // DefaultEnvars reads "-" as no variable
		}
		return next(nil)
	})
}

// DefaultAdmin returns the admin address of a program. Each program has its own port, so that all of them can run on
// one machine.
func DefaultAdmin(program string) string {
	switch program {
	case "collector":
		return "127.0.0.1:9181"
	case "limiter-sidecar":
		return "127.0.0.1:9182"
	}
	return "127.0.0.1:9180"
}

type Parser struct {
	Kong *kong.Kong
	file *file
	args []string
	// settings holds the values of all flags after Parse, by name.
	settings map[string]any
	// command is the command that was called, as people write it. Its help shows more than the help of the program.
	command string
	// helpAll is true if the help is to show every setting.
	helpAll bool
	// buildAgain builds the same parser with empty settings.
	buildAgain func() (*Parser, error)
}

// Parse reads flags, environment and file. All errors in the file are reported before any other error, because a wrong
// file is the likely cause of other missing values.
func (p *Parser) Parse(args []string) (*kong.Context, error) {
	args, p.helpAll = takeHelpAll(args)
	ctx, err := p.Kong.Parse(args)
	p.command = commandPath(ctx, err)
	if fileErr := p.file.allErrors(); fileErr != nil {
		return nil, WrongFile{Err: fileErr}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, cmp.Or(p.foreignSettingError(args, err), err))
	}
	p.args, p.settings = args, map[string]any{}
	for _, flag := range ctx.Flags() {
		replaceAnyHost(flag)
		p.settings[flag.Name] = flag.Target.Interface()
		if err := checkValue(flag, flag.Target); err != nil && strings.Contains(flag.Name, ".") {
			return nil, Usage("--%s: %w", flag.Name, err)
		}
	}
	p.file.forwards = p.servesUpstream()
	if p.file.secret, err = p.readSecret(); err != nil {
		err = WrongFile{Err: err}
	}
	return ctx, err
}

// servesUpstream reports whether the settings are of a process that forwards requests by itself, without others.
func (p *Parser) servesUpstream() bool {
	short, serves := p.settings["upstream"].(string)
	long, _ := p.settings["proxy.upstream"].(string)
	return serves && (short != "" || long != "")
}

// replaceAnyHost converts an address to listen on to the form of Go: *:8080, as nginx and HAProxy write it, becomes
// :8080.
func replaceAnyHost(flag *kong.Flag) {
	if !strings.HasSuffix(flag.Name, "listen") && flag.Name != "accesslog.syslog" {
		return
	}
	switch addr := flag.Target.Addr().Interface().(type) {
	case *string:
		*addr = anyHost.ReplaceAllString(*addr, "$1:")
	case *[]string:
		for i := range *addr {
			(*addr)[i] = anyHost.ReplaceAllString((*addr)[i], "$1:")
		}
	}
}

// anyHost matches the host * of an address, which means all addresses of the machine, after the scheme of StatsD's
// addresses.
var anyHost = regexp.MustCompile(`^(|(?:udp|tcp)://)\*:`)

// commandPath returns the command of a parsed line, even if the line has a mistake, or "" if no command was found.
func commandPath(ctx *kong.Context, err error) string {
	if wrong := new(kong.ParseError); errors.As(err, &wrong) {
		ctx = wrong.Context
	}
	if ctx == nil || ctx.Selected() == nil {
		return ""
	}
	return ctx.Selected().FullPath()
}

// readSecret returns the key of the hashes of redacted values. It is empty if the settings have no key.
func (p *Parser) readSecret() ([]byte, error) {
	text, _ := p.settings["privacy.secret"].(string)
	if path, _ := p.settings["privacy.secret_file"].(string); path != "" {
		if text != "" {
			return nil, Usage("--privacy.secret and --privacy.secret_file are both set; keep one")
		}
		var err error
		if text, err = textfile.Secret(path); err != nil {
			return nil, fmt.Errorf("config: --privacy.secret_file: %w", err)
		}
	}
	if text != "" && len(text) < rules.MinSecret {
		return nil, fmt.Errorf("config: --privacy.secret has %d bytes, it must have at least %d; make one with: "+
			"openssl rand -hex 24", len(text), rules.MinSecret)
	}
	return []byte(text), nil
}

// Rules returns the rules in force: of a central store, of the file of --config, or the defaults. Call it after Parse.
func (p *Parser) Rules() (*rules.Set, error) { return p.file.rulesOf(nil) }

// defaultRules describes how a user gets the default rules.
const defaultRules = "start without --config"

// RulesToRun returns Rules for a program that runs by them. Rules that are empty, or that hash values without a secret,
// are an error, see [rules.Options].
func (p *Parser) RulesToRun() (*rules.Set, error) {
	set, err := p.file.rulesOf(&rules.Remedies{Rules: defaultRules,
		Secret: "set --privacy.secret_file, the same for all programs"})
	if err != nil {
		return nil, WrongFile{Err: err}
	}
	return set, nil
}

// Warnings returns the warnings about the rules in force and about unknown environment variables. Call it after Parse.
// A command that reads no configuration, such as the health check of a container, has no warnings.
func (p *Parser) Warnings() (warnings []string) {
	if _, reads := p.settings["config"]; !reads {
		return nil
	}
	warnings = unknownVariables(os.Environ())
	if set, err := p.file.rulesOf(nil); err == nil {
		warnings = append(warnings, set.Warnings...)
	}
	return warnings
}

// variablePrefix begins the names of the variables that are settings.
const variablePrefix = "HOTPARAM_"

// notSettings matches variables with the prefix of settings that are not settings: the variables that Kubernetes sets
// for a service named hotparam, and the variables of tests.
var notSettings = regexp.MustCompile(`_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP).*)?$` +
	`|^HOTPARAM_(TEST|REQUIRE|LIMIT|FUZZ)_` +
	`|^HOTPARAM_(TRAFFIC|SAMPLES|UPSTREAMS|CACHE_TESTS|REDIS_SERVER|SCREENSHOTS|PICTURES|PROGRAMS|NIGHTLY)$`)

// unknownVariables returns warnings about variables that look like settings but are not settings of any program.
func unknownVariables(environment []string) (warnings []string) {
	var known []string
	for _, name := range append(slices.Sorted(maps.Keys(knownFlags())), shortSettings...) {
		known = append(known, variablePrefix+strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(name)))
	}
	for _, v := range environment {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, variablePrefix) && !slices.Contains(known, name) && !notSettings.MatchString(name) {
			warnings = append(warnings, "the variable "+name+" is not a setting"+conf.Suggest(name, known))
		}
	}
	return warnings
}

// ServeDefaults returns the default settings of serve, for programs that contain it.
func ServeDefaults() Serve {
	var s Serve
	k, err := kong.New(&s, tagVariables(DefaultAdmin("")))
	if err == nil {
		_, err = k.Parse(nil)
	}
	if err != nil {
		panic("config: the defaults of serve do not parse: " + err.Error()) // a mistake here, which every test finds
	}
	return s
}

// release is the version of a release. The linker sets it (.goreleaser.yaml).
var release string

// Version returns the version of a release, or else the version of the module as the go command stamped it, or else
// "devel" for a build from a checkout.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
