package hotparam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/requestlog"
	"github.com/hotparam/pipeline/internal/textfile"
)

// Config holds the settings of a Pipeline. The zero value is one process with the default rules: each path with its
// query, less parameters such as utm_source, is a key, which is hot from 500 requests a second on and is then held to
// 100.
type Config struct {
	// Rules holds the rules; nil means the default rules.
	Rules *Rules

	// Shared joins the pipeline with others by Redis: a shared.Config of package shared. nil means that everything is
	// in this process.
	Shared Shared

	// StateDir is a directory that keeps the live overrides of a pipeline alone over restarts, the secrets of its
	// visitor passes, and the latency of its upstreams; "" means that they are in memory.
	StateDir string
	// OnEvent is called with each event while Run runs, by one goroutine in order; it may not block for long. Keys that
	// are hot and overrides that are set when Run begins are events too.
	OnEvent func(Event)

	// Denials is the log of denied requests; the zero value means that there is no log.
	Denials DenialLog

	// CacheMemory bounds the bytes of the responses that Middleware keeps for hot keys whose rule has a cache; default
	// 64 MiB.
	CacheMemory int64
	// Budget is the maximum time for which one decision waits for Redis; default 20 ms. When it is over, each rule's
	// on_store_failure decides.
	Budget time.Duration
	// RetryJitter is the maximum by which a denial asks to wait longer than necessary, at random, so that clients that
	// were denied together do not come back together. It is an hour or less.
	RetryJitter time.Duration
	// Instance names this process in reports: up to 128 printable bytes without spaces; default host, process id and
	// start.
	Instance string
	// Log receives problems when they begin and when they end; default slog.Default(). Lines that repeat are written at
	// growing intervals, with the number of lines that were not written (suppressed).
	Log *slog.Logger
}

// DenialLog is a log with a line for each denied request, and for each request that a limit in shadow mode would have
// denied. docs/denials.md describes the lines. A request never waits for it, and a log that cannot be written is
// reported once in Config.Log. Run writes it.
type DenialLog struct {
	// To is "stdout", "stderr" or the path of a file, which New creates if it is missing. A second after the file was
	// moved, a new one is opened. "" means that there is no log.
	To string
	// Format is "json" or "logfmt"; "" means JSON.
	Format string
	// Rate is the maximum number of lines in a second; 0 means 100, and -1 no maximum. A further line counts the
	// denials that have none.
	Rate int
}

// defaultDenialRate is the Rate of a DenialLog without a Rate.
const defaultDenialRate = 100

// open opens the log, or returns nil if there is none.
func (d DenialLog) open(log *slog.Logger) (*requestlog.Denials, error) {
	form := cmp.Or(accesslog.DenialForm(d.Format), accesslog.DenialJSON)
	switch {
	case d.To == "":
		return nil, nil
	case form != accesslog.DenialJSON && form != accesslog.DenialLogfmt:
		return nil, fmt.Errorf("hotparam: Config.Denials.Format %q must be json or logfmt", d.Format)
	case d.Rate < requestlog.NoMaximum:
		return nil, fmt.Errorf("hotparam: Config.Denials.Rate %d must be at least 1, or -1 for no maximum", d.Rate)
	}
	l, err := requestlog.OpenDenials(requestlog.DenialsConfig{To: d.To, Form: form,
		Rate: cmp.Or(d.Rate, defaultDenialRate), Log: log})
	if err != nil {
		return nil, fmt.Errorf("hotparam: Config.Denials.To: %w", err)
	}
	return l, nil
}

// Shared joins a pipeline with others. It is a [github.com/hotparam/pipeline/hotparam/shared.Config]; New refuses other
// types.
type Shared interface {
	// StoreName returns the name of the store that the processes share: "Redis".
	StoreName() string
}

// Sink receives the counts, about ten times a second, from one goroutine. Send should return when ctx ends.
//
// The counts belong to the sink once Send returns nil. After an error they must be unchanged, and no count delivered:
// they are sent once more, and then dropped and counted in Stats.
//
// Pipeline.Run runs a Sink that also has Run(ctx context.Context) error, and ends it when the last counts have been
// sent to it. If a Sink has Delivered() (sent, lost uint64), that returns the numbers of requests that it has delivered
// and lost, for Stats. If it also has Down() bool, that reports whether counts cannot be delivered now, for
// Health.CountsDown.
type Sink interface {
	Send(ctx context.Context, counts []Count) error
}

// The plain types of requests, counts and verdicts; package hottype documents their fields.
type (
	Request     = hottype.Request
	Client      = hottype.Client
	Count       = hottype.Count
	Verdict     = hottype.Verdict
	HotKey      = hottype.HotKey
	Explanation = hottype.Explanation
)

// Options determines how requests are judged and answered, by [Pipeline.MiddlewareWith] and by the adapters for
// frameworks. C is the type that a framework passes to its handlers; for net/http it is an [Exchange]. The zero value
// has the behaviour of [Pipeline.Middleware].
type Options[C any] struct {
	// Skip reports whether a request passes without being counted or judged; nil skips no request.
	Skip func(C) bool
	// Client returns the name of the requester, such as a user or an API key, in place of the address; "" leaves the
	// address. Per-IP windows then apply to the name, so return only names that the client cannot choose freely. nil
	// always leaves the address.
	Client func(C) (string, error)
	// OnClientError answers a request whose Client failed, which goes no further. The framework receives the returned
	// error. If it is nil, the request is judged by its address.
	OnClientError func(C, error) error
	// Cost returns the amount that a request takes from its limits; nil, or 0, means 1. A negative cost is rejected.
	Cost func(C) int64
	// Deny answers a denied request in place of a problem document, a page or text by Accept. The header fields of the
	// denial are set already. The framework receives the returned error.
	Deny func(C, *Verdict) error

	// Forwards is true if the handlers forward requests, as httputil.ReverseProxy does: their URL is judged in place of
	// the target as received, hop-by-hop fields are removed, only WebSocket upgrades pass, and a request that holds a
	// slot of a limit of requests in flight goes on for up to 30 s after its client has left, as the upstream does. The
	// request of Enforce is changed for that. Other handlers see the request that is judged: nothing is removed for
	// them.
	Forwards bool

	// InContext puts the verdict and the client into the context of a request that the handlers receive, for
	// [FromContext]. It costs a copy of the request.
	InContext bool

	// Status is the status of responses to denied requests, if Deny is nil; 0 means 429.
	Status int
	// Headers selects the header fields that show the limit that applied; "" means RateLimit and RateLimit-Policy.
	Headers hottype.HeaderStyle
	// HideLimitHeaders leaves these fields out of responses to allowed requests.
	HideLimitHeaders bool
	// ExposeHeaders names them in Access-Control-Expose-Headers, for scripts of other origins.
	ExposeHeaders bool
}

// Exchange is a request to a handler of net/http, with the writer of its response.
type Exchange struct {
	W http.ResponseWriter
	R *http.Request
}

// Rules determine which requests are counted under which key, when a key is hot, and how it is limited then. They do
// not change. Make them with [LoadRules], [ParseRules] or [NewRules], which reject rules that are empty; [New] rejects
// the zero value. Errors in rules are [rule.Errors]: each has the file, the line and the field.
type Rules struct{ set *rules.Set }

// RulesOption is a setting that rules need and that is not in their file.
type RulesOption struct{ apply func(*rules.Options) }

// WithHashSecret sets the key of the hashes of values that rules redact: at least 16 bytes, and the same in every
// process of a namespace (privacy.secret of the programs).
func WithHashSecret(secret string) RulesOption {
	return RulesOption{func(o *rules.Options) { o.Secret = []byte(secret) }}
}

// LoadRules reads rules from a YAML file. docs/rules.md lists its fields; settings of the programs, which may be in the
// same file, are ignored.
func LoadRules(path string, options ...RulesOption) (*Rules, error) {
	data, err := textfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("hotparam: rules: %w", err)
	}
	return ParseRules(path, data, options...)
}

// ParseRules reads rules like LoadRules, from YAML in memory, for rules that are embedded.
func ParseRules(name string, data []byte, options ...RulesOption) (*Rules, error) {
	return newRules(options, func(o rules.Options) (*rules.Set, error) { return rules.ParseWith(name, data, o) })
}

// Namespace returns the tenant of the rules; its processes share hot keys and limits. It is "default" for nil, the
// default rules, and "" for the zero value.
func (r *Rules) Namespace() string {
	set, err := r.orDefault()
	if err != nil {
		return ""
	}
	return set.Namespace
}

// orDefault returns the set of r, or the default rules for nil.
func (r *Rules) orDefault() (*rules.Set, error) {
	switch {
	case r == nil:
		return rules.Default(), nil
	case r.set == nil:
		return nil, errors.New("the Rules are the zero value: make them with LoadRules, ParseRules or NewRules, " +
			"or pass nil for the default rules")
	}
	return r.set, nil
}

// NewRules makes rules of Go values. They are checked in the same way as a file with the same fields, and errors name
// the field: "Rules[0].Hot.Rate".
func NewRules(s rule.Set, options ...RulesOption) (*Rules, error) {
	return newRules(options, func(o rules.Options) (*rules.Set, error) {
		return rules.FromGo("Set", &s, o)
	})
}

func newRules(options []RulesOption, read func(rules.Options) (*rules.Set, error)) (*Rules, error) {
	o := rules.Options{Sections: rules.ProgramSections, ToRun: &rules.Remedies{
		Rules: "leave Config.Rules nil", Secret: "give it by WithHashSecret"}}
	for _, option := range options {
		if option.apply != nil {
			option.apply(&o)
		}
	}
	if n := len(o.Secret); n > 0 && n < rules.MinSecret {
		return nil, fmt.Errorf("hotparam: rules: WithHashSecret has %d bytes, it must have at least %d", n, rules.MinSecret)
	}
	set, err := read(o)
	if err != nil {
		return nil, fmt.Errorf("hotparam: rules: %w", err)
	}
	return &Rules{set: set}, nil
}
