package graphite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// newClient returns a client that keeps the connection, ignores the proxy settings of the environment, and does not
// follow redirects, because the target would receive the password.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetch makes one request and calls each for every series of the response until an error occurs. The error describes
// the request, the response and the remedy.
func (p *Poller) fetch(ctx context.Context, query string, lookback int64, each func(*series)) error {
	req, err := p.newRequest(ctx, query, lookback)
	if err != nil {
		return fmt.Errorf("graphite: %w", err)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return p.describeError(ctx, err)
	}
	defer res.Body.Close()
	p.readClock(res.Header.Get("Date"))
	if err := checkAnswer(res); err != nil {
		return fmt.Errorf("graphite: GET %s: %w", p.where, err)
	}
	if err := readSeries(http.MaxBytesReader(nil, res.Body, p.cfg.MaxBody), each); err != nil {
		return p.describeError(ctx, err)
	}
	// The end of the line after the list is read so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, res.Body, 1024)
	return nil
}

func (p *Poller) newRequest(ctx context.Context, query string, lookback int64) (*http.Request, error) {
	u := p.url
	// Graphite caches responses for a minute unless noCache is set.
	u.RawQuery = query + "&from=-" + strconv.FormatInt(lookback, 10) + "s&until=now&format=json&noCache=true"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range p.cfg.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
		if http.CanonicalHeaderKey(name) == "Host" && len(values) > 0 {
			req.Host = values[0]
		}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Cache-Control", "no-cache")
	if p.cfg.Username != "" || p.cfg.Password != "" {
		req.SetBasicAuth(p.cfg.Username, p.cfg.Password)
	}
	return req, nil
}

// describeError adds to an error its URL and, if it is clear, the remedy.
func (p *Poller) describeError(ctx context.Context, err error) error {
	var hint string
	switch {
	case errors.Is(err, errTooBig):
		hint = fmt.Sprintf(" (more than %d bytes); raise hot.rate of the rules, or make the keys fewer", p.cfg.MaxBody)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		hint = fmt.Sprintf("; no whole answer within %v (--graphite.timeout)", p.cfg.Timeout)
	}
	return fmt.Errorf("graphite: GET %s: %w%s", p.where, withoutURL(err), hint)
}

// withoutURL removes the URL, with all targets, from an error of the client.
func withoutURL(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !strings.Contains(err.Error(), "://") {
			return err
		}
		err = inner
	}
}

// checkAnswer returns nil for a response with data, or an error that describes the response and the remedy.
func checkAnswer(res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	var hint string
	switch {
	case res.StatusCode == http.StatusOK && (kind == "application/json" || kind == "text/json"):
		return nil
	case res.StatusCode == http.StatusOK:
		return fmt.Errorf("responded with %.60q instead of JSON: %s; is --graphite.url the address of graphite-web?", kind,
			quoteBeginning(res.Body))
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		hint = "set --graphite.username and --graphite.password, or --graphite.header"
	case res.StatusCode == http.StatusNotFound:
		hint = "is there a path missing in --graphite.url?"
	case res.StatusCode/100 == 3:
		hint = fmt.Sprintf("it sends to %.200q; set --graphite.url to where that is", res.Header.Get("Location"))
	case res.StatusCode == http.StatusBadRequest:
		hint = "it rejects a target (--graphite.targets) or a function; it must be graphite-web 1.1 or compatible"
	case res.StatusCode == http.StatusRequestURITooLong || res.StatusCode == http.StatusRequestHeaderFieldsTooLarge:
		hint = "let the server take requests of 4 KiB"
	default:
		hint = "see the log of graphite-web"
	}
	return fmt.Errorf("answered %d: %s; %s", res.StatusCode, quoteBeginning(res.Body), hint)
}

// quoteBeginning quotes the beginning of a response body without its markup, for a message to people.
func quoteBeginning(body io.Reader) string {
	b, _ := io.ReadAll(io.LimitReader(body, 4096))
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(strings.ToValidUTF8(string(b), "?"), " ")
	text = strings.Join(strings.Fields(text), " ")
	return fmt.Sprintf("%.160q", text)
}

// readClock reads the time of a response, which is cut to whole seconds and so half a second behind on average.
func (p *Poller) readClock(date string) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	p.clockKnown = true
	now := p.cfg.Now()
	at = at.Add(time.Second / 2)
	if p.offset.observeClock(now, at, time.Second) {
		p.resetTaken()
	}
	p.difference = at.Sub(now)
}

// resetTaken forgets the buckets and heartbeats of a clock that was set since. Seconds that were counted are not
// counted again: see clockOffset.
func (p *Poller) resetTaken() {
	p.taken = newTakenBuckets(p.cfg.MaxSeries)
	p.beat = p.offset.upTo
	p.round = round{asked: p.round.asked, scratch: p.round.scratch}
}

// Inspection holds the results of Inspect, which package doctor judges.
type Inspection struct {
	URL        string
	Err        string        // why the metrics cannot be read, with the remedy; the fields below are then empty
	PollErr    string        // why the polls, which use functions, are refused
	Version    string        // of graphite-web, or "" if it does not report one
	ClockAhead time.Duration // its clock minus this machine's, to about a second
	ClockKnown bool
	Series     int           // our metrics that were found, at most 100 a rule
	Step       time.Duration // the distance between their points, 0 if no series has two
	Age        time.Duration // of the newest point; negative if there is no point
	Flush      time.Duration // the flush interval in the poller's configuration
}

// inspectLookback is the number of seconds that Inspect looks back.
const inspectLookback = 600

// Inspect requests some metrics of each rule without functions that filter, then the queries of Poll. It does not hand
// over counts. It must not be called while Poll runs.
func (p *Poller) Inspect(ctx context.Context) Inspection {
	in := Inspection{URL: p.where, Flush: p.cfg.Flush, Age: -1}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	var newest int64
	for _, r := range p.cfg.Rules.Rules {
		query := "target=" + url.QueryEscape("limit("+p.cfg.pathOf(r)+",100)")
		err := p.fetch(ctx, query, inspectLookback, func(s *series) {
			in.Series++
			points, step, _, _ := s.parseBuckets(nil)
			if d := time.Duration(step) * time.Second; step > 0 && (in.Step == 0 || d < in.Step) {
				in.Step = d
			}
			if len(points) > 0 {
				newest = max(newest, points[len(points)-1].at)
			}
		})
		if err != nil {
			in.Err = err.Error()
			return in
		}
	}
	plan := p.plan.Load()
	for _, query := range plan.queries {
		if err := p.fetch(ctx, query, plan.lookback, func(*series) {}); err != nil {
			in.PollErr = err.Error()
			break
		}
	}
	in.ClockAhead, in.ClockKnown = p.difference, p.clockKnown
	if newest > 0 {
		in.Age = max(0, p.cfg.Now().Add(p.difference).Sub(time.Unix(newest, 0)))
	}
	in.Version = p.fetchVersion(ctx)
	return in
}

// fetchVersion returns the version of graphite-web, or "" for servers that do not report one.
func (p *Poller) fetchVersion(ctx context.Context) string {
	req, err := p.newRequest(ctx, "", 1)
	if err != nil {
		return ""
	}
	req.URL = req.URL.JoinPath("../version/")
	req.URL.RawQuery = ""
	res, err := p.client.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 40))
	v := strings.TrimSpace(string(text))
	if res.StatusCode != http.StatusOK || strings.Trim(v, "0123456789.-abcdefghijklmnopqrstuvwxyz") != "" {
		return ""
	}
	return v
}
