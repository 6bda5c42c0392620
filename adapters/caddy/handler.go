package caddy

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
)

func init() { caddy.RegisterModule(Handler{}) } // Caddy finds its modules by this registration

// Handler counts requests and limits the requests for hot values. Caddy provisions it and cleans it up.
type Handler struct {
	// Rules is the file of the rules. The default is the default rules.
	Rules string `json:"rules,omitempty"`
	// Redis is the URL of the Redis server that holds hot keys, overrides and shared limits:
	// redis://[user:password@]host:port, or rediss:// for TLS. It needs StatsD. Placeholders such as {env.REDIS_URL}
	// are replaced.
	Redis string `json:"redis,omitempty"`
	// StatsD is the address of the aggregator that receives this process's counts, or several addresses separated by
	// commas.
	StatsD string `json:"statsd,omitempty"`
	// Budget is the longest time that one decision waits for Redis. The default is 20 ms.
	Budget caddy.Duration `json:"budget,omitempty"`

	// Client identifies the client by placeholders such as {http.auth.user.id}. If they are empty, the client's address
	// identifies it. Use only placeholders whose value the client cannot choose freely.
	Client string `json:"client,omitempty"`
	// Denials is the log of denied requests. The default is no log.
	Denials Denials `json:"denials,omitzero"`

	layer *adapter.Adapter[*http.Request] // nil before Provision
	key   string                          // of the pipeline in running
}

// Denials holds the settings of a log with a line for each denied request. docs/denials.md describes the lines.
type Denials struct {
	// To is stdout, stderr or the path of a file. A second after the file was moved, a new one is opened. Placeholders
	// such as {env.LOGS} are replaced.
	To string `json:"to"`
	// Format is json or logfmt. The default is json.
	Format string `json:"format,omitempty"`
	// Rate is the maximum number of lines in a second, or -1 for no maximum. The default is 100.
	Rate int `json:"rate,omitempty"`
}

// CaddyModule returns the name of the module and its constructor.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.hotparam", New: func() caddy.Module { return new(Handler) }}
}

// Provision starts the pipeline, or takes the running pipeline with the same settings and rules, so that hot keys and
// the charges of limits survive a reload of Caddy's configuration.
func (h *Handler) Provision(ctx caddy.Context) error {
	text, err := h.readRules()
	if err != nil {
		return err
	}
	replacer := caddy.NewReplacer()
	s := settings{
		name: cmp.Or(h.Rules, "rules"), rules: text, hasRules: h.Rules != "",
		redis: replacer.ReplaceAll(h.Redis, ""), statsd: replacer.ReplaceAll(h.StatsD, ""),
		budget: time.Duration(h.Budget),
		denials: hotparam.DenialLog{To: replacer.ReplaceAll(h.Denials.To, ""), Format: h.Denials.Format,
			Rate: h.Denials.Rate},
	}
	h.key = s.key()
	shared, _, err := running.LoadOrNew(h.key, func() (caddy.Destructor, error) { return start(s, ctx.Slogger()) })
	if err != nil {
		return err
	}
	options := hotparam.Options[*http.Request]{Forwards: true}
	if h.Client != "" {
		options.Client = h.nameClient
	}
	h.layer = adapter.New(shared.(*process).pipeline, options)
	return nil
}

func (h *Handler) nameClient(r *http.Request) (string, error) {
	return r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).ReplaceAll(h.Client, ""), nil
}

func (h *Handler) readRules() ([]byte, error) {
	if h.Rules == "" {
		return nil, nil
	}
	text, err := os.ReadFile(h.Rules)
	if err != nil {
		return nil, fmt.Errorf("hotparam: rules: %w", err)
	}
	return text, nil
}

// Cleanup ends the pipeline when no handler uses it any longer.
func (h *Handler) Cleanup() error {
	if h.layer == nil { // Provision failed
		return nil
	}
	_, err := running.Delete(h.key)
	return err
}

// ServeHTTP passes a request on, or responds 429 with Retry-After, the RateLimit fields and a body of the type that
// Accept names.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	j, err := h.layer.Enforce(r, w, r)
	if err != nil || j == nil {
		return err
	}
	defer j.Done()
	if err = next.ServeHTTP(&writer{&caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, j}, r); err != nil {
		j.ResponseStarted(statusOf(err))
	}
	j.ResponseStarted(http.StatusOK) // for a handler that writes nothing
	return err
}

// statusOf returns the status with which Caddy responds to an error.
func statusOf(err error) int {
	var e caddyhttp.HandlerError
	if errors.As(err, &e) && e.StatusCode > 0 {
		return e.StatusCode
	}
	return http.StatusInternalServerError
}

// writer reports to judged when the response begins.
type writer struct {
	*caddyhttp.ResponseWriterWrapper
	judged *adapter.Decision
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.judged.ResponseStarted(status)
	}
	w.ResponseWriterWrapper.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (int, error) {
	w.judged.ResponseStarted(http.StatusOK)
	return w.ResponseWriterWrapper.Write(b)
}

// ReadFrom implements io.ReaderFrom, which Caddy uses to send files.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	w.judged.ResponseStarted(http.StatusOK)
	return w.ResponseWriterWrapper.ReadFrom(r)
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
