package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/fleet"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/operator/carbon"
	"github.com/hotparam/pipeline/internal/operator/doctor"
	"github.com/hotparam/pipeline/internal/operator/udpstat"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

type doctorCmd struct {
	config.Doctor
	Admin string `placeholder:"URL" help:"Admin listener of a running limiter-sidecar or hotparam serve, to inspect its response cache, its memory limit and whether it rejects gateways."`
	adminAccess
	outputFlags
	Quiet   bool          `short:"q" help:"Print problems only."`
	Timeout time.Duration `default:"15s" help:"Longest wait for one system."`
}

// errFindings makes the exit code 1. The report has the details.
var errFindings = errors.New("doctor: something fails; see the report")

func (c *doctorCmd) Run(ctx context.Context, k *kong.Kong, p *config.Parser) error {
	set, err := p.Rules()
	if err != nil {
		return err
	}
	if c.Rules == "redis:" && len(c.Redis.Addr) == 0 {
		return config.Usage("--rules redis: where is Redis? Set --redis.addr, such as 127.0.0.1:6379")
	}
	names, err := c.Names.Metric()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.report(k.Stdout, c.inspectAll(ctx, set, c.expectedOf(set, names)))
}

// reportBadFile reports a configuration file that cannot be used. Nothing else can be inspected, because the file names
// the systems.
func (c *doctorCmd) reportBadFile(out, errOut io.Writer, err error) int {
	return config.Fail(errOut, name, c.report(out, doctor.Report{
		Findings: []doctor.Finding{doctor.Unparsed(cmp.Or(c.Config, "configuration file"), err)}}))
}

func (c *doctorCmd) report(out io.Writer, r doctor.Report) error {
	err := c.Print(out, r, func(out io.Writer) error {
		color := isatty.IsTerminal(os.Stdout.Fd()) && os.Getenv("NO_COLOR") == ""
		return doctor.Write(out, r, doctor.Options{Color: color, Quiet: c.Quiet})
	})
	if err == nil && r.Worst() == doctor.Fail {
		err = errFindings
	}
	return err
}

const defaultWindow = 5 * time.Second

func (c *doctorCmd) expectedOf(set *rules.Set, names canon.Names) doctor.Expected {
	want := doctor.Expected{
		Window: defaultWindow, Plain: c.Names.Style == "plain", Budget: c.Gate.Budget, HotTTL: c.Detect.HotTTL,
		Lateness: c.Detect.Lateness, FromGraphite: c.Graphite.URL != "", Prefix: c.Graphite.Prefix,
		RulesInRedis: c.Rules == "redis:", Passes: set.UsesProofs(),
	}
	key := hottype.Key("topic?id=42")
	for i, r := range set.Rules {
		if i == 0 || r.Hot.Window < want.Window {
			want.Window = r.Hot.Window
		}
		if i == 0 && !r.IsCatchAll() {
			key = hottype.Key(r.Name + "?id=42")
		}
	}
	metric := c.Graphite.Prefix + "." + string(names.Append(nil, key))
	if c.Graphite.Suffix != "" {
		metric += "." + c.Graphite.Suffix
	}
	want.Metrics = []string{metric}
	return want
}

// inspectAll inspects all configured systems concurrently and reports their findings in a fixed order.
func (c *doctorCmd) inspectAll(ctx context.Context, set *rules.Set, want doctor.Expected) doctor.Report {
	inspections := []func() []doctor.Finding{
		func() []doctor.Finding { return doctor.Rules(set, c.Config, len(c.Redis.Addr) > 0, time.Now()) },
		func() []doctor.Finding {
			o := detect.Options{Counters: c.Detect.Counters, MaxRate: c.Detect.MaxRate, Lateness: c.Detect.Lateness}
			return doctor.Counters(set, o, c.Config)
		},
		func() []doctor.Finding { return doctor.UDP(udpstat.Inspect(ctx, c.In.ReadBuffer, time.Second)) },
		func() []doctor.Finding { return doctor.CheckSenders(c.senderSettings(), set, c.Config) },
		func() []doctor.Finding { return c.inspectStatsD(ctx, want) },
		func() []doctor.Finding { return c.inspectGraphite(ctx, set, want) },
		func() []doctor.Finding { return c.inspectKafka(ctx, set, want) },
		func() []doctor.Finding { return c.inspectRedis(ctx, set, want) },
		func() []doctor.Finding { return c.inspectProgram(ctx, set) },
	}
	found := make([][]doctor.Finding, len(inspections))
	var all sync.WaitGroup
	for i, inspect := range inspections {
		all.Go(func() { found[i] = inspect() })
	}
	all.Wait()
	report := doctor.Report{Findings: []doctor.Finding{}}
	for _, f := range found {
		report.Findings = append(report.Findings, f...)
	}
	return report
}

// quietLog discards the log of an inspection, because the report has all findings.
var quietLog = slog.New(slog.DiscardHandler)

func (c *doctorCmd) senderSettings() doctor.Senders {
	s := doctor.Senders{
		Listen: c.In.Listen, Allow: c.In.Allow,
		Graphite: c.Graphite.URL != "" && len(c.In.Listen) == 0 && len(c.Kafka.Brokers) == 0,
	}
	switch {
	case s.Graphite: // has a finding of its own
	case c.Tally.TrackClients <= 0:
		s.NoClientsSetting = "tally.track_clients: 0"
	case !c.StatsD.Sets && len(c.Kafka.Brokers) == 0:
		s.NoClientsSetting = "statsd.sets: false"
	}
	return s
}

func (c *doctorCmd) inspectStatsD(ctx context.Context, want doctor.Expected) []doctor.Finding {
	var out []doctor.Finding
	target := statsd.Target{Admin: c.StatsDAdmin.Admin, File: c.StatsDAdmin.Config}
	if len(c.StatsD.Addr) > 0 {
		target.Addr = c.StatsD.Addr[0]
	}
	in := statsd.Inspection{}
	if target != (statsd.Target{}) {
		in = statsd.Inspect(ctx, target)
		out = doctor.StatsD(in, want)
	}
	// The first server is inspected. Of the others only whether they listen.
	for _, addr := range slices.Concat(c.StatsD.Addr, c.StatsD.Standby) {
		if addr != target.Addr {
			out = append(out, doctor.StatsD(statsd.Inspect(ctx, statsd.Target{Addr: addr}), want)...)
		}
	}
	if c.Carbon.Conf != "" {
		out = append(out, doctor.Carbon(carbon.Inspect(c.Carbon.Conf), doctor.FlushOf(in), want)...)
	}
	return out
}

func (c *doctorCmd) inspectGraphite(ctx context.Context, set *rules.Set, want doctor.Expected) []doctor.Finding {
	if c.Graphite.URL == "" {
		return nil
	}
	poller, err := fleet.NewPoller(c.Graphite, c.Names, set, func([]hottype.Count) {}, quietLog)
	if err != nil {
		return unusableSetting("graphite.url", err)
	}
	defer poller.Close()
	return doctor.Graphite(poller.Inspect(ctx), want)
}

func (c *doctorCmd) inspectKafka(ctx context.Context, set *rules.Set, want doctor.Expected) []doctor.Finding {
	if len(c.Kafka.Brokers) == 0 {
		return nil
	}
	cfg := fleet.KafkaConfig(c.Kafka, set.Namespace, quietLog)
	cfg.Group = c.Group.Name(set.Namespace)
	in, err := kafka.Inspect(ctx, cfg)
	if err != nil {
		return unusableSetting("kafka.brokers", err)
	}
	return doctor.Kafka(in, c.Kafka.Create, want)
}

func (c *doctorCmd) inspectRedis(ctx context.Context, set *rules.Set, want doctor.Expected) []doctor.Finding {
	if len(c.Redis.Addr) == 0 {
		return nil
	}
	client, err := fleet.OpenRedis(c.Redis, set.Namespace, 0, quietLog)
	if err != nil {
		return unusableSetting("redis.addr", err)
	}
	found := doctor.Redis(client.Inspect(ctx), want)
	if err := client.Close(); err != nil {
		found = append(found, unusableSetting("redis.addr", err)...)
	}
	return found
}

func unusableSetting(setting string, err error) []doctor.Finding {
	return []doctor.Finding{{Level: doctor.Fail, What: err.Error(), Where: setting,
		Why: "no program starts with it", Fix: fmt.Sprintf("fix --%s", setting)}}
}

// inspectProgram inspects the program at --admin: its response cache, the memory that its connections may take, and
// whether it refuses gateways.
func (c *doctorCmd) inspectProgram(ctx context.Context, set *rules.Set) []doctor.Finding {
	in := doctor.CacheInspection{Admin: config.Redact(c.Admin)}
	if c.Admin == "" {
		return doctor.Cache(in, set)
	}
	admin := adminFlags{Admin: c.Admin, adminAccess: c.adminAccess, Timeout: c.Timeout}
	page, err := admin.askAdmin(ctx, question{path: "/metrics"}, nil)
	if err != nil {
		in.Err = err.Error()
		return doctor.Cache(in, set)
	}
	if !strings.Contains("\n"+string(page.body), "\nhotparam_") {
		in.Err = in.Admin + " responds, but /metrics there is not from hotparam; is --admin right?"
		return doctor.Cache(in, set)
	}
	in.Present, in.Silent = silentUpstreams(string(page.body))
	return slices.Concat(doctor.Cache(in, set), doctor.Memory(memoryOf(in.Admin, string(page.body))),
		doctor.Gateways(in.Admin, refusedGateways(string(page.body))),
		doctor.Envoy(envoyOf(in.Admin, string(page.body))), inspectRunningRules(ctx, &admin, in.Admin))
}

// inspectRunningRules returns the findings about the rules of a running program, or nil if the program does not report
// them.
func inspectRunningRules(ctx context.Context, admin *adminFlags, shown string) []doctor.Finding {
	var a struct {
		Rules     []doctor.RunningRule
		Processes []live.Process
	}
	if _, err := admin.askAdmin(ctx, question{path: "/v1/rules/running"}, &a); err != nil {
		return nil
	}
	var others []string
	for _, p := range a.Processes {
		if p.Rules == "other" {
			others = append(others, p.Kind+" "+printableText(p.Instance))
		}
	}
	return doctor.RunningRules(shown, a.Rules, others)
}

// memoryOf reads from /metrics the memory that the connections of each listener may take, and the limit of the process.
func memoryOf(admin, page string) doctor.MemoryInspection {
	in := doctor.MemoryInspection{Admin: admin, Bounds: map[string]int64{}}
	for line := range strings.Lines(page) {
		var name string
		var n float64
		if read, _ := fmt.Sscanf(line, "hotparam_listener_memory_bound_bytes{listener=%q} %g", &name, &n); read == 2 {
			in.Bounds[name] = int64(n)
		} else if read, _ := fmt.Sscanf(line, "hotparam_memory_limit_bytes %g", &n); read == 1 {
			in.Limit = int64(n)
		}
	}
	return in
}

// silentUpstreams reads the upstreams that a response cache reports as silent in /metrics. known is false if the page
// is from a program without a response cache.
func silentUpstreams(page string) (known bool, silent []doctor.SilentUpstream) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "hotparam_cache_hits_total ") {
			known = true
		}
		var s doctor.SilentUpstream
		if n, _ := fmt.Sscanf(line, "hotparam_cache_silent_answers_total{rule=%q,upstream=%q} %g",
			&s.Rule, &s.Upstream, &s.Stored); n == 3 {
			silent = append(silent, s)
		}
	}
	return known, silent
}
