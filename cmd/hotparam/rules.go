package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/rules"
)

type rulesCmd struct {
	Push     rulesPushCmd     `cmd:"" help:"Store the rules of a file."`
	Get      rulesGetCmd      `cmd:"" help:"Print the rules in the store, or one version of them, after a line with the version."`
	Diff     rulesDiffCmd     `cmd:"" help:"Compare a file, or a version, with the rules in the store."`
	History  rulesHistoryCmd  `cmd:"" help:"List the last changes."`
	Status   rulesStatusCmd   `cmd:"" help:"Print the rules that each process runs, and the rules that cannot work."`
	Rollback rulesRollbackCmd `cmd:"" help:"Store an earlier version again, as a new version."`
	Validate rulesValidateCmd `cmd:"" help:"Check files like push, without a store; print every error with its line."`
}

// storeOf returns the name of the store as a sentence has it: redis, not redis:.
func storeOf(a *admin.Rules) string { return strings.TrimSuffix(a.Store, ":") }

// fetchRules returns the rules in the store, and the ETag that a change of them must carry.
func (c *adminFlags) fetchRules(ctx context.Context) (a admin.Rules, etag string, err error) {
	answer, err := c.askAdmin(ctx, question{path: "/v1/rules"}, &a)
	return a, answer.header.Get("ETag"), err
}

// fetchRevision returns a version with its text.
func (c *adminFlags) fetchRevision(ctx context.Context, version int64) (r rules.Revision, err error) {
	_, err = c.askAdmin(ctx, question{path: "/v1/rules/history/" + strconv.FormatInt(version, 10)}, &r)
	return r, err
}

type rulesGetCmd struct {
	adminFlags
	outputFlags
	Version int64 `arg:"" optional:"" help:"Version; default: the current version in the store."`
}

func (c *rulesGetCmd) Run(ctx context.Context, k *kong.Kong) error {
	r, err := c.fetchVersion(ctx, c.Version)
	if err != nil {
		return err
	}
	return c.Print(k.Stdout, r, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "%s%d; push refuses if the store holds another version by then\n%s",
			versionLinePrefix, r.Version, r.Text)
		return err
	})
}

// versionLinePrefix begins the first line that get prints, which names the version.
const versionLinePrefix = "# hotparam rules version "

// cutVersionLine removes the line that get has put before rules, and returns its version, or 0 if there is no such
// line.
func cutVersionLine(text string) (rules string, version int64) {
	line, rest, _ := strings.Cut(text, "\n")
	after, ok := strings.CutPrefix(line, versionLinePrefix)
	if !ok {
		return text, 0
	}
	number, _, _ := strings.Cut(strings.TrimSuffix(after, "\r"), ";")
	if version, _ = strconv.ParseInt(number, 10, 64); version <= 0 {
		return text, 0
	}
	return rest, version
}

// fetchVersion returns a version with its text, or the version in the store if version is 0.
func (c *adminFlags) fetchVersion(ctx context.Context, version int64) (rules.Revision, error) {
	if version != 0 {
		return c.fetchRevision(ctx, version)
	}
	a, _, err := c.fetchRules(ctx)
	switch {
	case err != nil:
		return rules.Revision{}, err
	case a.Current == nil:
		return rules.Revision{}, fmt.Errorf("%s holds no rules", storeOf(&a))
	}
	return *a.Current, nil
}

type rulesDiffCmd struct {
	adminFlags
	outputFlags
	From string `arg:"" help:"YAML file, or a version."`
	To   string `arg:"" optional:"" help:"YAML file, or a version; default: the version in the store, to which From is compared."`
}

// Run prints the changes that lead from the first text to the second. A file alone is compared with the rules in the
// store, which it would replace.
func (c *rulesDiffCmd) Run(ctx context.Context, k *kong.Kong) error {
	from, to := c.From, c.To
	if to == "" {
		from, to = "0", c.From
	}
	old, before, err := c.readRulesText(ctx, from)
	if err != nil {
		return err
	}
	shown, after, err := c.readRulesText(ctx, to)
	if err != nil {
		return err
	}
	lines := diff.Diff(old, []byte(before), shown, []byte(after))
	return c.Print(k.Stdout, map[string]string{"from": old, "to": shown, "diff": string(lines)},
		func(out io.Writer) error {
			_, err := out.Write(lines)
			return err
		})
}

// readRulesText returns the text of a file, of a version, or of the version in the store if of is "0".
func (c *rulesDiffCmd) readRulesText(ctx context.Context, of string) (shown, text string, err error) {
	version, err := strconv.ParseInt(of, 10, 64)
	if err != nil {
		text, err = readText(of)
		text, _ = cutVersionLine(text)
		return of, text, err
	}
	r, err := c.fetchVersion(ctx, version)
	return fmt.Sprintf("version %d", r.Version), r.Text, err
}

type rulesHistoryCmd struct {
	adminFlags
	outputFlags
}

func (c *rulesHistoryCmd) Run(ctx context.Context, k *kong.Kong) error {
	var a struct{ Revisions []rules.Revision }
	answer, err := c.askAdmin(ctx, question{path: "/v1/rules/history"}, &a)
	if err != nil {
		return err
	}
	return c.printTable(k.Stdout, answer, func(t io.Writer) {
		fmt.Fprintln(t, "VERSION\tTIME\tAUTHOR\tREASON")
		for _, r := range a.Revisions {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", r.Version, r.At.UTC().Format(time.RFC3339), printableText(r.Author),
				printableText(r.Reason))
		}
	})
}

type rulesStatusCmd struct {
	adminFlags
	outputFlags
}

func (c *rulesStatusCmd) Run(ctx context.Context, k *kong.Kong) error {
	var running statedRules
	var got struct {
		Running answer  `json:"running"`
		Stored  *answer `json:"stored,omitempty"` // nil: the rules are in files
	}
	var err error
	if got.Running, err = c.askAdmin(ctx, question{path: "/v1/rules/running"}, &running); err != nil {
		return err
	}
	var a admin.Rules
	if running.Central {
		stored, err := c.askAdmin(ctx, question{path: "/v1/rules"}, &a)
		if err != nil {
			return err
		}
		got.Stored = &stored
	}
	return c.Print(k.Stdout, got, func(out io.Writer) error { return c.write(out, &running, &a) })
}

// statedRules are the rules that this process runs, and the state of every other process.
type statedRules struct {
	Central   bool
	Rules     []live.Rule
	Processes []live.Process
}

func (c *rulesStatusCmd) write(out io.Writer, running *statedRules, a *admin.Rules) error {
	if err := writeTable(out, func(t io.Writer) {
		fmt.Fprintf(t, "PROCESS\tRUNS\tREJECTS\tRULES\n%s\t%s\t%s\t-\n", c.Admin, formatVersion(a.Running),
			formatVersion(a.Rejected))
		for _, p := range running.Processes {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", printableText(p.Instance), formatVersion(p.Running),
				formatVersion(p.Rejected), p.Rules)
		}
	}); err != nil {
		return err
	}
	for _, r := range running.Rules {
		if r.Note != "" {
			fmt.Fprintf(out, "rule %s: %s\n", printableText(r.Name), printableText(r.Note))
		}
	}
	if !running.Central {
		_, err := fmt.Fprintln(out, "the rules come from files; RULES compares them with the first line")
		return err
	}
	if a.Current != nil {
		fmt.Fprintf(out, "version %d is in the store, since %s\n", a.Current.Version, a.Current.At.Format(time.RFC3339))
	}
	if a.Why != "" {
		fmt.Fprintf(out, "version %d is rejected: %s\n", a.Rejected, printableText(a.Why))
	}
	if a.LimitersError != "" {
		fmt.Fprintf(out, "limiters are not known: %s\n", printableText(a.LimitersError))
	}
	return nil
}

// formatVersion formats a version of the rules for a table. It returns "-" for 0, which means no version.
func formatVersion(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

type rulesValidateCmd struct {
	outputFlags
	Files []string `arg:"" name:"file" help:"YAML files with rules."`
}

func (c *rulesValidateCmd) Run(k *kong.Kong) error {
	return c.validate(k, c.Files, func(path string) (*rules.Set, []string, error) {
		text, err := readText(path)
		if err != nil {
			return nil, nil, err
		}
		set, err := config.CheckStored(path, text)
		if err != nil {
			return nil, nil, err
		}
		return set, set.Warnings, nil
	}, describeSet)
}
