// Package admin serves the people who run the pipeline: the dashboard, the HTTP API
// behind it, the metrics and the health checks, on a listener of its own.
//
//	[web] the form of requests and responses <── [changes] what people change
//	                                         <── [past]    what was
//	                                         <── [live]    what is, from one sample a second (knows changes and past)
//	                                         <── admin     who may call: the routes of all three, the page, probes
//
// [New] builds a [Server] and starts nothing. [Server.Handler] serves,
// [Server.Run] samples and feeds the streams. Programs call
// access.CheckListen before they listen: off loopback the API is not served
// without a token.
//
// The package decides nothing about requests and never calls an outside
// system itself. Keys are hostile input: they are never HTML.
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

// What programs hand over and read of the packages below.
type (
	Change        = live.Change
	DryRun        = past.DryRun
	History       = past.Store
	Overview      = live.Overview
	RuleOverview  = live.RuleOverview
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

// Config says what a [Server] shows and who may see it. Only Hot and Rules are
// needed; what is nil is shown as absent.
type Config struct {
	live.Config
	// Central is the store that the program has its rules from; nil: they are from its file.
	Central RuleStore
	// Command has every limiter carry out a command, and says how many answers a purge has removed
	// in this process; nil: the program reaches no limiter.
	Command func(context.Context, report.Command) (purged int, err error)
	// Notify are the webhooks that receive events; nil: none.
	Notify Notifier

	// Ready are the checks of /readyz by name. Each gets two seconds.
	Ready map[string]func(context.Context) error
	// Parts are checks that /readyz names, and that do not make the program unready: it answers requests all the same.
	Parts map[string]func(context.Context) error
	// Metrics answers GET /metrics; nil: nothing is there.
	Metrics http.Handler

	// Access is who may call, and may do what. None: every caller may do everything,
	// which is safe only on loopback; see access.CheckListen.
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

// Stats are counters since the start, and Streams as it is now.
type Stats struct {
	live.Stats
	Requests     uint64 `metric:"hotparam_admin_requests_total" help:"Requests to the admin server."`
	Unauthorized uint64 `metric:"hotparam_admin_unauthorized_total" help:"Requests rejected because the token was missing or wrong."`
	RateLimited  uint64 `metric:"hotparam_admin_rate_limited_total" help:"Requests rejected unseen because their client had shown too many wrong tokens."`
	ForeignHosts uint64 `metric:"hotparam_admin_foreign_hosts_total" help:"Requests rejected because of the name in their Host header."`
}

// New builds a server, or says which field of the configuration is wrong. It
// starts nothing and listens nowhere.
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
	s.past = past.New(past.Config{History: cfg.History, Rules: cfg.Rules, Purged: s.purged, Log: cfg.Log, Now: cfg.Now})
	s.changes = changes.New(changes.Config{
		Rules: cfg.Rules, Overrides: cfg.Overrides, Central: cfg.Central, Reports: cfg.Reports, Command: cfg.Command,
		DryRun: s.past.DryRun, Live: s.Service, Log: cfg.Log, Now: cfg.Now,
	})
	return s, nil
}

// purged has a key leave memory once its history was purged. The audit does not name the key: it may be what must be
// gone.
func (s *Server) purged(ctx context.Context, key hottype.Key, author string) {
	s.Purged(key, author)
	s.changes.Record(ctx, rules.Change{Action: rules.ChangePurgeHistory, Author: author})
}

// Handler serves everything. The caller owns listener and http.Server; set
// ReadHeaderTimeout, and leave WriteTimeout at 0 or the event streams end with
// it.
func (s *Server) Handler() http.Handler { return s.guard(httplimit.WithoutRedirects(s.mux())) }

// CheckTokens rejects named tokens that cannot replace those in force.
func (s *Server) CheckTokens(tokens []auth.Token) error { return s.access.CheckTokens(tokens) }

// ReplaceTokens replaces the named tokens in force, once CheckTokens
// has taken them. Open streams end, because their callers may have lost the right;
// clients come back by themselves.
func (s *Server) ReplaceTokens(tokens []auth.Token) {
	if s.access.Replace(tokens) {
		s.CloseStreams()
	}
}

// ReplaceSharedTokens replaces the tokens of the whole listener, as ReplaceTokens the named ones, and reports whether
// they are others.
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

// contentTypes are those of the files, by the ending of their names. The system's table may lack or change them, and
// browsers run no module of another type.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".json": "application/json",
}

//go:embed static/index.html
var page []byte

// maxDepth bounds how long the links of the page get by the slashes in its address. A view has two.
const maxDepth = 64

// servePage sends the dashboard. Its links are relative to the address of the request, because the handler may be
// mounted below a prefix that it does not know.
func servePage(w http.ResponseWriter, r *http.Request) error {
	root := strings.Repeat("../", min(max(strings.Count(r.URL.EscapedPath(), "/")-1, 0), maxDepth))
	body := bytes.ReplaceAll(page, []byte(`="./`), []byte(`="`+cmp.Or(root, "./")))
	return newFile("", "index.html", body).serve(w, r)
}

// views are the addresses of the dashboard: one page, which shows the view of its address.
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

// pageFiles lists the files of the dashboard and openapi.json. The embedded tree is part of
// the program: reading it cannot fail.
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

// serve sends the file, or 304 to who has it. No-cache means: ask each time,
// so that a new version shows at once.
func (f file) serve(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
	return nil
}
