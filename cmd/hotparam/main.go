// Command hotparam is the binary for people: a demo, the whole pipeline in one
// process, and tools that show how requests are seen. See hotparam --help.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/fleet"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// commands is the command line. kong calls Run of the chosen command with the arguments that it declares.
type commands struct {
	Demo       demoCmd       `cmd:"" help:"Show the whole pipeline at work, without any server."`
	Serve      serveCmd      `cmd:"" help:"Put the whole pipeline, in one process, in front of a service."`
	Learn      learnCmd      `cmd:"" help:"Read access logs and write a configuration that fits this site, with the reason for each number."`
	Replay     replayCmd     `cmd:"" help:"Report the keys that would have been hot, and the requests that would have been limited, in access logs."`
	Doctor     doctorCmd     `cmd:"" help:"Inspect StatsD, carbon, Kafka, Redis and the kernel for silent faults, and print remedies."`
	Explain    explainCmd    `cmd:"" help:"Show the rule, key, metric and limits of requests."`
	Top        topCmd        `cmd:"" help:"Watch hot keys live in the terminal, and limit, block or exempt them there."`
	Hot        hotCmd        `cmd:"" help:"Work with hot keys of a running program."`
	Gateway    gatewayCmd    `cmd:"" help:"Write files for gateways from the rules."`
	Override   overrideCmd   `cmd:"" help:"Change the limits of a key, a client or a whole resource, at once and everywhere."`
	Trace      traceCmd      `cmd:"" help:"Record the requests of a client and the verdicts of limiters, and print them."`
	Audit      auditCmd      `cmd:"" help:"List the changes and their authors."`
	History    historyCmd    `cmd:"" help:"Work with the history of a running program."`
	Notify     notifyCmd     `cmd:"" help:"Test the webhooks of a running program, and list their state."`
	Health     healthCmd     `cmd:"" help:"Request a URL; exit code 0 if the status is 2xx. For health checks of containers."`
	Token      tokenCmd      `cmd:"" help:"Make a token for the admin listener, and its hash for the configuration file."`
	Rules      rulesCmd      `cmd:"" help:"Change the rules in a central store, and show the version that each limiter runs."`
	Config     configCmd     `cmd:"" help:"Work with configuration files."`
	Collector  collectorCmd  `cmd:"" set:"admin_listen=127.0.0.1:9181" help:"Receive StatsD lines, mirrored requests and access logs, and send counts to Kafka or StatsD."`
	Aggregator aggregatorCmd `cmd:"" set:"admin_listen=127.0.0.1:9180" help:"Find the hot keys in counts from StatsD, Kafka or Graphite and publish them to Redis."`
	Limiter    sidecarCmd    `cmd:"" name:"limiter-sidecar" set:"admin_listen=127.0.0.1:9182" help:"Decide for gateways and applications: allow or deny. Also a reverse proxy."`
	Load       loadCmd       `cmd:"" help:"Send the traffic of the demo (readers, crawlers, a viral topic) to a site of yours."`
	Version    versionCmd    `cmd:"" help:"Print the version, like --version."`
	Completion completionCmd `cmd:"" help:"Print the code with which a shell completes commands at the tab key."`
}

const name = "hotparam"

func main() { os.Exit(start(os.Args[1:])) }

func start(args []string) int {
	if len(args) == 1 && args[0] == "--version" {
		args = []string{"version"}
	}
	var cli commands
	p, err := config.Build(&cli, name, "Finds parameters that go viral and limits only those.")
	if err != nil {
		return config.Fail(os.Stderr, name, err)
	}
	kongcompletion.Register(p.Kong)
	cmd, err := p.Parse(args)
	if err != nil && len(args) > 0 && args[0] == "doctor" && !errors.Is(err, config.ErrUsage) {
		return cli.Doctor.reportBadFile(os.Stdout, os.Stderr, err)
	}
	if err != nil {
		return p.Fail(os.Stderr, err)
	}
	// The programs in this list log their warnings themselves.
	if !slices.Contains([]string{"serve", "collector", "aggregator", "limiter-sidecar"}, cmd.Command()) {
		printWarnings(os.Stderr, p.Warnings())
	}
	ctx, stop := program.Context()
	defer stop()
	cmd.BindTo(ctx, (*context.Context)(nil))
	return p.Fail(os.Stderr, cmd.Run(p))
}

type versionCmd struct{ outputFlags }

func (c *versionCmd) Run(k *kong.Kong) error {
	return c.printLine(k.Stdout, map[string]string{"name": name, "version": config.Version()}, "%s %s", name,
		config.Version())
}

type completionCmd struct {
	outputFlags
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell for the code: ${enum}."`
}

func (*completionCmd) Help() string {
	return "Tab completion in this shell: source <(hotparam completion bash). Put the line into the shell's start-up file to " +
		"keep it. For fish: hotparam completion fish | source."
}

func (c *completionCmd) Run(k *kong.Context) error {
	var text bytes.Buffer
	out, exit := k.Stdout, k.Exit
	k.Stdout, k.Exit = &text, func(int) {} // Run prints the code and ends the process
	err := (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(k)
	if k.Stdout, k.Exit = out, exit; err != nil {
		return err
	}
	return c.Print(out, map[string]string{"shell": c.Shell, "code": text.String()}, func(out io.Writer) error {
		_, err := out.Write(text.Bytes())
		return err
	})
}

type configCmd struct {
	Validate validateCmd `cmd:"" help:"Check files; print every error with file, line and field."`
}

type validateCmd struct {
	outputFlags
	Files []string `arg:"" name:"file" help:"YAML files."`
}

func (v *validateCmd) Run(k *kong.Kong) error {
	return v.validate(k, v.Files, program.Validate, func(set *rules.Set) string {
		return "namespace " + set.Namespace + ", " + describeSet(set)
	})
}

// checkedFile is the result of checking one file: a description of its contents, or the error because of which it
// cannot be used.
type checkedFile struct {
	File     string   `json:"file"`
	OK       bool     `json:"ok"`
	Holds    string   `json:"holds,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// validate checks files and prints a description of each file without an error.
func (f *outputFlags) validate(k *kong.Kong, files []string, check func(path string) (*rules.Set, []string, error),
	holds func(*rules.Set) string) error {
	var failed error
	list := make([]checkedFile, len(files))
	for i, path := range files {
		set, warnings, err := check(path)
		if err != nil {
			failed = errors.Join(failed, err)
			list[i] = checkedFile{File: path, Error: err.Error()}
			continue
		}
		printWarnings(k.Stderr, warnings)
		list[i] = checkedFile{File: path, OK: true, Holds: holds(set), Warnings: warnings}
	}
	return errors.Join(failed, f.Print(k.Stdout, map[string]any{"files": list}, func(out io.Writer) error {
		for _, c := range list {
			if c.OK {
				fmt.Fprintf(out, "%s: ok: %s\n", c.File, c.Holds)
			}
		}
		return nil
	}))
}

func printWarnings(to io.Writer, list []string) {
	for _, w := range list {
		fmt.Fprintf(to, "%s: %s\n", name, printableText(w))
	}
}

func describeSet(set *rules.Set) string {
	return formatCount(len(set.Rules), "rule", "rules") + ", " +
		formatCount(len(set.Classes), "class", "classes") + ", " +
		formatCount(len(set.Overrides), "override", "overrides")
}

// The programs of a pipeline on several machines are also commands of this one, so that one binary is enough for an
// image. The mains of their own in cmd/ are the same.

type collectorCmd struct{ config.Collector }

func (c *collectorCmd) Run(ctx context.Context, p *config.Parser) error {
	return fleet.Collector(ctx, c.Collector, p, config.Version())
}

type aggregatorCmd struct{ config.Aggregator }

func (c *aggregatorCmd) Run(ctx context.Context, p *config.Parser) error {
	return fleet.Aggregator(ctx, c.Aggregator, p, config.Version())
}

type sidecarCmd struct{ config.Sidecar }

func (c *sidecarCmd) Run(ctx context.Context, p *config.Parser) error {
	return fleet.Sidecar(ctx, c.Sidecar, p, config.Version())
}

// healthCmd asks a URL once. It is the health check of containers that have neither a shell nor curl.
type healthCmd struct {
	URL        string        `arg:"" help:"URL to request, such as http://127.0.0.1:9180/readyz."`
	Timeout    time.Duration `default:"3s" help:"Longest wait for the response."`
	UnixSocket string        `placeholder:"PATH" help:"Unix socket for the request; the URL selects the path."`
	CA         string        `name:"ca" placeholder:"FILE" help:"Trusted certificates (PEM); default: the system's."`
	Insecure   bool          `help:"Trust any certificate."`
}

// firstLineMax bounds the part of a response's body that is shown, in bytes.
const firstLineMax = 300

// Run returns an error of one line that names the URL and the reason why the check failed.
func (c *healthCmd) Run(ctx context.Context) error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return config.Usage("health: the argument must be a URL such as http://127.0.0.1:9180/readyz")
	}
	if c.Timeout <= 0 {
		return config.Usage("health: --timeout %v must be above 0", c.Timeout)
	}
	client, err := c.httpClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := checkHealth(ctx, client, u); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", c.Timeout)
		}
		return fmt.Errorf("health: %s: %w", u.Redacted(), err)
	}
	return nil
}

func (c *healthCmd) httpClient() (*http.Client, error) {
	config, err := tlsfiles.Files{CA: c.CA}.Client("health: --")
	if err != nil {
		return nil, err
	}
	config.InsecureSkipVerify = c.Insecure
	t := &http.Transport{TLSClientConfig: config}
	if c.UnixSocket != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.UnixSocket)
		}
	}
	return newClient(t), nil
}

// checkHealth returns nil if the status of the response is 2xx.
func checkHealth(ctx context.Context, client *http.Client, u *url.URL) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // the caller names the URL
		}
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 2 {
		return nil
	}
	line, _ := bufio.NewReader(io.LimitReader(res.Body, firstLineMax)).ReadString('\n') // a truncated body is shown too
	line = strings.ToValidUTF8(strings.TrimSpace(line), string(utf8.RuneError))
	return errors.New(strings.TrimSuffix(res.Status+": "+printableText(line), ": "))
}
