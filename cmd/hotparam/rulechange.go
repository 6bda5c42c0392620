package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/rules"
)

// reasonFlags holds the author and the reason of a change of rules, and how the result is printed.
type reasonFlags struct {
	outputFlags
	Reason string `short:"m" help:"Reason, for the history."`
	Author string `help:"Author for the history; default: the login name."`
}

func (r reasonFlags) query() url.Values {
	return url.Values{"reason": {r.Reason}, "author": {authorOf(r.Author)}}
}

// pushRules stores rules in place of the version that etag names, and prints the version that is then in the store.
func (c *adminFlags) pushRules(ctx context.Context, out io.Writer, how *outputFlags, etag, text string,
	query url.Values) error {
	var a admin.Rules
	q := question{http.MethodPut, "/v1/rules", query,
		http.Header{"If-Match": {etag}, "Content-Type": {"application/yaml"}}, text}
	answer, err := c.askAdmin(ctx, q, &a)
	if err != nil {
		return err
	}
	return how.printLine(out, answer, "version %d is in %s", a.Version, storeOf(&a))
}

type rulesPushCmd struct {
	adminFlags
	reasonFlags
	confirmFlags
	On     int64  `placeholder:"VERSION" help:"Refuse unless the store has this version; default: the version that get wrote into the file, or else the current version."`
	Force  bool   `help:"Push although the store holds another version than get read."`
	DryRun bool   `name:"dry-run" help:"Store nothing; print the changes that the rules would have made in the last ten minutes."`
	File   string `arg:"" help:"YAML file with rules; - is standard input."`
}

func (c *rulesPushCmd) Run(ctx context.Context, k *kong.Kong) error {
	text, err := readText(c.File)
	if err != nil {
		return err
	}
	text, got := cutVersionLine(text)
	above := min(got, 1) // lines of the file above the rules
	if c.DryRun {
		return c.nameFile(c.dryRun(ctx, k.Stdout, text), above)
	}
	etag := strconv.Quote(strconv.FormatInt(c.On, 10))
	if c.On == 0 {
		if etag, err = c.etagFor(ctx, got); err != nil {
			return err
		}
	}
	err = c.changeConfirmed(k, func(word url.Values) error {
		return c.pushRules(ctx, k.Stdout, &c.outputFlags, etag, text, mergeQueries(c.query(), word))
	})
	return c.nameFile(err, above)
}

// etagFor returns the ETag of the stored rules, if got is their version, got is 0, or --force is set. got is the
// version that get has written into the file. So rules that another person has pushed meanwhile are not replaced
// unseen.
func (c *rulesPushCmd) etagFor(ctx context.Context, got int64) (string, error) {
	a, etag, err := c.fetchRules(ctx)
	if err != nil || got == 0 || c.Force {
		return etag, err
	}
	switch {
	case a.Current == nil:
		return "", fmt.Errorf("%s was made of version %d, and %s holds no rules; add --force to push it all the same",
			c.File, got, storeOf(&a))
	case a.Current.Version != got:
		by := ""
		if a.Current.Author != "" {
			by = " by " + printableText(a.Current.Author)
		}
		return "", fmt.Errorf("%s was made of version %d, and version %d%s is in the store now; nothing was pushed: look at "+
			"hotparam rules diff %d %d, then get the rules again, or add --force to replace them",
			c.File, got, a.Current.Version, by, got, a.Current.Version)
	}
	return etag, nil
}

// versionFile matches the name by which a program refers to the text that it was sent, with a line number of that text.
var versionFile = regexp.MustCompile(`version-\d+\.yaml:(\d*)`)

// nameFile makes the errors in a text name the file of the text. above is the number of lines of the file above the
// text.
func (c *rulesPushCmd) nameFile(err error, above int64) error {
	if err == nil || !versionFile.MatchString(err.Error()) {
		return err
	}
	file := c.File
	if file == "-" {
		file = "standard input"
	}
	return errors.New(versionFile.ReplaceAllStringFunc(err.Error(), func(at string) string {
		_, line, _ := strings.Cut(at, ":")
		if n, err := strconv.ParseInt(line, 10, 64); err == nil {
			line = strconv.FormatInt(n+above, 10)
		}
		return file + ":" + line
	}))
}

func (c *rulesPushCmd) dryRun(ctx context.Context, out io.Writer, text string) error {
	var a admin.DryRun
	q := question{http.MethodPut, "/v1/rules", url.Values{"dry_run": {"true"}},
		http.Header{"Content-Type": {"application/yaml"}}, text}
	answer, err := c.askAdmin(ctx, q, &a)
	if err != nil {
		return err
	}
	return c.Print(out, answer, func(out io.Writer) error { return writeDryRun(out, &a) })
}

func writeDryRun(out io.Writer, a *admin.DryRun) error {
	fmt.Fprintf(out, "tried on %d minutes of history: %d keys change, %d do not; nothing was stored\n", a.Minutes,
		len(a.Keys), a.Unchanged)
	if a.Truncated {
		fmt.Fprintln(out, "there were more keys than were tried")
	}
	if err := writeDryKeys(out, a.Keys); err != nil || a.Windows == nil {
		return err
	}
	return writeDryWindows(out, a.Windows)
}

// writeDryWindows writes the effect of the windows of clients, and the windows that were not tried.
func writeDryWindows(out io.Writer, w *admin.WindowTrials) error {
	if w.KnownFrom != nil {
		fmt.Fprintf(out, "windows of clients, by %d sampled requests of the last minute; clients below %.3g/s are not known\n",
			w.Sampled, *w.KnownFrom)
	}
	if len(w.Rules) > 0 {
		err := writeTable(out, func(t io.Writer) {
			writeRow(t, "WINDOWS OF", "REQUESTS", "DENIED", "WOULD BE", "CLIENTS", "WOULD BE", "OF", "SUCH AS")
			for _, r := range w.Rules {
				writeRow(t, cmp.Or(r.Rule, "ip, all requests"), perSecond(r.Requests), perSecond(r.DeniedBefore),
					perSecond(r.DeniedAfter), strconv.Itoa(r.ClientsBefore), strconv.Itoa(r.ClientsAfter),
					strconv.Itoa(r.Clients), strings.Join(r.Examples, " "))
			}
		})
		if err != nil {
			return err
		}
	}
	for _, text := range w.NotTried {
		fmt.Fprintln(out, "windows of clients are not tried:", printableText(text))
	}
	return nil
}

func perSecond(rate *float64) string {
	if rate == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g/s", *rate)
}

func writeDryKeys(out io.Writer, keys []admin.DryKey) error {
	if len(keys) == 0 {
		return nil
	}
	return writeTable(out, func(t io.Writer) {
		writeRow(t, "KEY", "PEAK", "BEFORE", "AFTER", "DENIED", "WOULD BE", "READS")
		for _, k := range keys {
			would := strconv.FormatFloat(k.DeniedAfter, 'f', 0, 64)
			if k.After == "uncounted" || k.After == "recounted" {
				would = "-"
			}
			writeRow(t, string(k.Key), fmt.Sprintf("%.4g/s", k.Peak), k.Before, k.After,
				strconv.FormatFloat(k.DeniedBefore, 'f', 0, 64), would, decodedKey(k.Key))
		}
	})
}

// readText reads a file, or standard input.
func readText(path string) (string, error) {
	in := io.Reader(os.Stdin)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, rules.MaxText+1))
	if err == nil && len(text) > rules.MaxText {
		err = fmt.Errorf("%s is over %d bytes", path, rules.MaxText)
	}
	return string(text), err
}

type rulesRollbackCmd struct {
	adminFlags
	reasonFlags
	confirmFlags
	Version int64 `arg:"" help:"Version, see rules history."`
}

func (c *rulesRollbackCmd) Run(ctx context.Context, k *kong.Kong) error {
	_, etag, err := c.fetchRules(ctx)
	if err != nil {
		return err
	}
	r, err := c.fetchRevision(ctx, c.Version)
	if err != nil {
		return err
	}
	query := c.query()
	if c.Reason == "" {
		query.Set("reason", fmt.Sprintf("back to version %d", c.Version))
	}
	return c.changeConfirmed(k, func(word url.Values) error {
		return c.pushRules(ctx, k.Stdout, &c.outputFlags, etag, r.Text, mergeQueries(query, word))
	})
}
