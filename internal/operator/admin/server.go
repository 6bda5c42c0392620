// Package admin serves the people who run the pipeline: the dashboard, the HTTP API behind it, the metrics and the
// health checks, on a listener of its own.
//
//	[web] the form of requests and responses <── [changes] changes by people
//	                                         <── [past]    the past
//	                                         <── [live]    the present, from one sample a second (imports the two)
//	                                         <── admin     who may call: the routes of all three, the page, probes
//
// [New] builds a [Server] and starts nothing. [Server.Handler] serves, [Server.Run] samples and feeds the streams.
// Programs call auth.CheckListen before they listen, because off loopback the API is not served without a token.
//
// The package decides nothing about requests and never calls an outside system itself. Keys are hostile input: they are
// never HTML.
//
// [web]: github.com/hotparam/pipeline/internal/operator/admin/web
package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/operator/admin/past"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/auth"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Types of the packages below that programs pass or read.
type (
	Change        = live.Change
	DryRun        = past.DryRun
	DryKey        = past.DryKey
	WindowTrials  = past.WindowTrials
	WindowTrial   = past.WindowTrial
	History       = past.Store
	Overview      = live.Overview
	Hottest       = live.Hottest
	RuleCost      = live.RuleCost
	KeyCost       = live.KeyCost
	LimiterRules  = changes.LimiterRules
	Limiter       = live.Limiter
	HotKey        = live.HotKey
	DeniedClient  = live.DeniedClient
	Client        = live.Client
	Totals        = live.Totals
	Rules         = changes.Rules
	RulesState    = changes.RulesState
	RuleStore     = changes.RuleStore
	OverrideStore = changes.OverrideStore
	Status        = live.Status
)

// Config holds the sources of a [Server], and who may see it. Only Hot and Rules are needed. Other fields may be nil
// and are then shown as absent.
type Config struct {
	live.Config
	// Central is the store of the program's rules, or nil if they are from its file.
	Central RuleStore
	// Command makes every limiter carry out a command, and returns the number of responses that a purge has removed in
	// this process. It is nil if the program reaches no limiter.
	Command func(context.Context, report.Command) (purged int, err error)
	// Notify sends events to webhooks. It is nil if there are no webhooks.
	Notify Notifier

	// Ready are the checks of /readyz by name. Each gets two seconds.
	Ready map[string]func(context.Context) error
	// Parts are checks that /readyz names but that do not make the program unready, because it still answers requests.
	Parts map[string]func(context.Context) error
	// Metrics answers GET /metrics, or is nil if nothing does.
	Metrics http.Handler

	// Access holds the credentials of callers, and their rights. Without credentials every caller may do everything,
	// which is safe only on loopback. See auth.CheckListen.
	Access auth.Credentials
}

func (c Config) validate() error {
	switch {
	case c.Hot == nil:
		return errors.New("admin: Config.Hot is nil; hand over the aggregator's or the replica's hot list")
	case c.Rules == nil:
		return errors.New("admin: Config.Rules is nil")
	case c.MaxStreams < 0:
		return fmt.Errorf("admin: Config.MaxStreams %d is negative", c.MaxStreams)
	}
	return auth.CheckToken("admin.token", c.Access.Token)
}

// Server serves dashboard, API and health checks. Build it with New; all methods are safe for concurrent use.
type Server struct {
	*live.Service
	cfg     Config
	access  *auth.Guard
	past    *past.Service
	changes *changes.Service
	files   []file

	requests, foreignHosts atomic.Uint64
}

// Stats are counters since the start, and the present number of streams.
type Stats struct {
	live.Stats
	Requests     uint64 `metric:"hotparam_admin_requests_total" help:"Requests to the admin server."`
	Unauthorized uint64 `metric:"hotparam_admin_unauthorized_total" help:"Requests rejected because the token was missing or wrong."`
	RateLimited  uint64 `metric:"hotparam_admin_rate_limited_total" help:"Requests rejected without a check because their client had sent too many wrong tokens."`
	ForeignHosts uint64 `metric:"hotparam_admin_foreign_hosts_total" help:"Requests rejected because of the host name in their Host header."`
}

// New builds a server, or returns an error that names the wrong field of the configuration. It starts nothing and
// listens nowhere.
func New(cfg Config) (*Server, error) {
	cfg.Config = cfg.WithDefaults()
	cfg.CentralRules = cfg.Central != nil
	if cfg.Metrics == nil {
		cfg.Metrics = http.NotFoundHandler()
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		Service: live.New(cfg.Config), cfg: cfg, access: auth.NewGuardOf("admin", cfg.Access, cfg.Log),
		files: pageFiles(),
	}
	s.past = past.New(past.Config{History: cfg.History, Rules: cfg.Rules, Traffic: s.Traffic, Purged: s.removePurged,
		Log: cfg.Log, Now: cfg.Now})
	s.changes = changes.New(changes.Config{
		Rules: cfg.Rules, Overrides: cfg.Overrides, Central: cfg.Central, Reports: cfg.Reports, Command: cfg.Command,
		DryRun: s.past.DryRun, Live: s.Service, Log: cfg.Log, Now: cfg.Now,
	})
	return s, nil
}

// removePurged removes a key from memory once its history was purged. The audit does not name the key, because the key
// may itself be data that must be removed.
func (s *Server) removePurged(ctx context.Context, key hottype.Key, author string) {
	s.Purged(key, author)
	s.changes.Record(ctx, rules.Change{Action: rules.ChangePurgeHistory, Author: author})
}

// Handler serves everything. The caller owns listener and http.Server. Set ReadHeaderTimeout, and leave WriteTimeout at
// 0, because it would end the event streams.
func (s *Server) Handler() http.Handler {
	return s.guardHandler(httplimit.WithoutRedirects(s.newMux()))
}

// CheckTokens rejects named tokens that cannot replace the tokens in force.
func (s *Server) CheckTokens(tokens []auth.Token) error { return s.access.CheckTokens(tokens) }

// ReplaceTokens replaces the named tokens in force, once CheckTokens has accepted them. Open streams end, because their
// callers may have lost the right. Clients come back by themselves.
func (s *Server) ReplaceTokens(tokens []auth.Token) {
	if s.access.Replace(tokens) {
		s.CloseStreams()
	}
}

// ReplaceSharedTokens replaces the tokens of the whole listener, as ReplaceTokens replaces the named ones, and reports
// whether they differ.
func (s *Server) ReplaceSharedTokens(tokens []string) bool {
	changed := s.access.ReplaceShared(tokens)
	if changed {
		s.CloseStreams()
	}
	return changed
}

func (s *Server) Stats() Stats {
	t := s.access.Stats()
	return Stats{Stats: s.Service.Stats(), Requests: s.requests.Load(), Unauthorized: t.Unauthorized,
		RateLimited: t.RateLimited, ForeignHosts: s.foreignHosts.Load()}
}

//go:embed static
var static embed.FS

//go:embed openapi.json
var openAPI []byte

type file struct {
	route, contentType, etag string
	body                     []byte
}

// contentTypes holds the types of the files, by the extensions of their names. The system's table may lack or change
// them, and browsers run no module of another type.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".json": "application/json",
}

//go:embed static/index.html
var page []byte

// maxDepth bounds the length of the links of the page, which grows with the slashes in its address. A view has two
// slashes.
const maxDepth = 64

// servePage sends the dashboard. Its links are relative to the address of the request, because the handler may be
// mounted below a prefix that it does not know.
func servePage(w http.ResponseWriter, r *http.Request) error {
	root := strings.Repeat("../", min(max(strings.Count(r.URL.EscapedPath(), "/")-1, 0), maxDepth))
	body := bytes.ReplaceAll(page, []byte(`="./`), []byte(`="`+cmp.Or(root, "./")))
	return newFile("", "index.html", body).serve(w, r)
}

// views are the addresses of the dashboard, which is one page that shows the view of its address.
var views = []string{"/{$}", "/key", "/key/{key...}", "/history", "/overrides", "/rules", "/client",
	"/client/{client...}", "/audit"}

func reasonsModule() []byte {
	short := map[string]string{}
	for r := range (report.Denials{}).All() {
		short[r.String()] = r.Info().Short
	}
	table, _ := json.Marshal(short) // a map of strings has a JSON form
	return fmt.Appendf(nil, "// What denies requests, by reason.\nexport const reasons = %s;\n", table)
}

// pageFiles returns the files of the dashboard and openapi.json. The embedded tree is part of the program, so reading
// it cannot fail.
func pageFiles() []file {
	files := []file{newFile("/openapi.json", "openapi.json", openAPI),
		newFile("/assets/reasons.js", "reasons.js", reasonsModule())}
	entries, _ := static.ReadDir("static")
	for _, e := range entries {
		body, _ := static.ReadFile("static/" + e.Name())
		if e.Name() != "index.html" {
			files = append(files, newFile("/assets/"+e.Name(), e.Name(), body))
		}
	}
	return files
}

func newFile(route, name string, body []byte) file {
	sum := sha256.Sum256(body)
	return file{route: route, contentType: contentTypes[path.Ext(name)], body: body,
		etag: `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// serve sends the file, or 304 to a client that has it. No-cache makes clients ask each time, so that a new version is
// shown at once.
func (f file) serve(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
	return nil
}
