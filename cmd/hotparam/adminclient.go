package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/tlsfiles"
	"github.com/hotparam/pipeline/internal/wait"
)

const maxAnswer = 16 << 20

type adminFlags struct {
	Admin string `default:"http://127.0.0.1:9180" placeholder:"URL" help:"Admin listener of an aggregator, a limiter or hotparam serve."`
	adminAccess
	Timeout time.Duration `default:"5s" help:"Longest wait for the response."`
}

type adminAccess struct {
	Token     string `name:"token" env:"HOTPARAM_ADMIN_TOKEN" help:"Token for the admin listener. Prefer the environment to the flag."`
	TokenFile string `name:"token-file" env:"HOTPARAM_ADMIN_TOKEN_FILE" placeholder:"FILE" help:"File that holds the token."`
	CA        string `name:"admin-ca" placeholder:"FILE" help:"Trusted certificates (PEM); default: the system's."`
}

// question is one request to an admin listener. Its method is GET if none is set.
type question struct {
	method, path string
	query        url.Values
	header       http.Header
	body         string
}

type answer struct {
	header http.Header
	body   json.RawMessage
}

// MarshalJSON returns the answer as the listener wrote it.
func (a answer) MarshalJSON() ([]byte, error) { return a.body, nil }

// askAdmin sends a question and decodes the answer into v, unless v is nil.
func (c *adminFlags) askAdmin(ctx context.Context, q question, v any) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	resp, err := c.send(ctx, q)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.header = resp.Header
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return a, fmt.Errorf("%s: the answer broke off: %w", c.Admin, err)
	}
	if v != nil {
		if err := json.Unmarshal(a.body, v); err != nil {
			return a, fmt.Errorf("%s: the response is not from an admin listener: %w", c.Admin, err)
		}
	}
	return a, nil
}

// send sends a question. If the listener answers with a problem, the error has the words of the problem.
func (c *adminFlags) send(ctx context.Context, q question) (*http.Response, error) {
	req, err := c.newRequest(ctx, q)
	if err != nil {
		return nil, err
	}
	tls, err := tlsfiles.Files{CA: c.CA}.Client("--admin-")
	if err != nil {
		return nil, err
	}
	resp, err := newClient(&http.Transport{TLSClientConfig: tls}).Do(req)
	if err != nil {
		return nil, c.silentError(err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // the bytes that were read suffice
		return nil, problemOf(resp.Status, body)
	}
	return resp, nil
}

// newClient returns a client that follows no redirect and takes no proxy from the environment, because the request and
// the token are for the named server alone. The client is for one question, so no connection outlives the answer.
func newClient(t *http.Transport) *http.Client {
	t.DisableKeepAlives = true
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// silentError returns the error of a listener that does not answer. It names the listener once.
func (c *adminFlags) silentError(err error) error {
	if u := new(url.Error); errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%s does not answer: %w; is --admin right?", config.Redact(c.Admin), err)
}

func (c *adminFlags) newRequest(ctx context.Context, q question) (*http.Request, error) {
	u, err := url.Parse(c.Admin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, config.Usage("--admin must be a URL such as http://127.0.0.1:9180")
	}
	u = u.JoinPath(q.path)
	u.RawQuery = q.query.Encode()
	req, err := http.NewRequestWithContext(ctx, q.method, u.String(), strings.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	for name, values := range q.header {
		req.Header[name] = values
	}
	token := c.Token
	if c.TokenFile != "" {
		text, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// problemOf returns the error that a response describes. Text of the server is made printable on a terminal.
func problemOf(status string, body []byte) error {
	var p struct{ Detail, Remedy, Field string }
	if json.Unmarshal(body, &p) != nil || p.Detail == "" {
		return fmt.Errorf("%s: %s", status, printableText(strings.TrimSpace(string(body))))
	}
	lines := strings.Split(p.Detail, "\n")
	for i := range lines {
		lines[i] = printableText(lines[i])
	}
	text := strings.Join(lines, "\n")
	if p.Field == "confirm" {
		return &unconfirmed{text}
	}
	if p.Remedy != "" {
		text += "; " + printableText(remedies.Replace(p.Remedy))
	}
	return fmt.Errorf("%s: %s", status, text)
}

// remedies replaces the calls that the API advises by commands of the command line.
var remedies = strings.NewReplacer(
	"GET /v1/overrides lists them", "hotparam override ls lists them",
	"GET /v1/overrides", "hotparam override ls",
	"GET /v1/hot shows", "hotparam hot ls shows",
	"GET /v1/audit lists", "hotparam audit lists",
	"GET /v1/rules/history lists", "hotparam rules history lists",
	"GET /v1/rules, look at the changes, and send it again with the new ETag in If-Match",
	"look at hotparam rules history and rules diff, and try again",
	"GET /v1/notifications lists", "hotparam notify ls lists",
	"see /openapi.json for the fields of an override", "see hotparam override set --help",
	"put it to /v1/overrides/{id} with an ID of its own", "set it with an --id of its own",
	"put it to /v1/overrides/", "set it with --id ",
	", or delete that one first", ", or hotparam override rm that one first",
	"/readyz names the part that is failing", "hotparam doctor names the part that is failing",
)

// authorOf returns the author to record for a change: named, or the user who is logged in if named is "".
func authorOf(named string) string {
	if u, err := user.Current(); named == "" && err == nil {
		return u.Username
	}
	return cmp.Or(named, os.Getenv("USER"))
}

// waitFlags are the flags of a command that can wait until its change holds everywhere.
type waitFlags struct {
	Wait time.Duration `placeholder:"DURATION" help:"Longest wait (10s) until every limiter has the change; exit code 1 if a limiter still lags."`
}

// waitForAll waits until every limiter has the revision that is stored now.
func (c *adminFlags) waitForAll(ctx context.Context, log *changeLog, most time.Duration) error {
	if most <= 0 {
		return nil
	}
	a, err := c.fetchLimiters(ctx)
	if err != nil {
		return err
	}
	return c.waitFor(ctx, log, most, a.Revision)
}

type limitersAnswer struct {
	Revision int64
	Limiters []admin.Limiter
}

func (c *adminFlags) fetchLimiters(ctx context.Context) (a limitersAnswer, err error) {
	_, err = c.askAdmin(ctx, question{path: "/v1/limiters"}, &a)
	return a, err
}

// pollEvery is the interval between two questions whether a change has arrived.
const pollEvery = 100 * time.Millisecond

// waitFor waits until no limiter is behind revision. If that takes longer than most, the error names
// the limiters that lag.
func (c *adminFlags) waitFor(ctx context.Context, log *changeLog, most time.Duration, revision int64) error {
	if most <= 0 {
		return nil
	}
	began := time.Now()
	for {
		a, err := c.fetchLimiters(ctx)
		if err != nil {
			return err
		}
		var behind []string
		for _, l := range a.Limiters {
			if l.Revision < revision {
				behind = append(behind, printableText(l.Instance))
			}
		}
		if len(behind) == 0 {
			log.logArrival(len(a.Limiters), time.Since(began))
			return nil
		}
		if time.Since(began) >= most {
			return fmt.Errorf("%d of %d limiters do not have it after %v: %s; it is stored, and they get it when they "+
				"can", len(behind), len(a.Limiters), most, strings.Join(behind, ", "))
		}
		if !wait.For(ctx, pollEvery) {
			return ctx.Err()
		}
	}
}
