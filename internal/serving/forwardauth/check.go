package forwardauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Gate decides about requests. *gate.Gate is one.
type Gate interface {
	DecideForGateway(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict
}

// Reported decides about requests whose gateway may have promised to report their ends. *held.Requests is one.
type Reported interface {
	Decide(ctx context.Context, now time.Time, req *hottype.Request, promise string) (v hottype.Verdict, report uint64)
}

type Config struct {
	// Gate is required.
	Gate Gate
	// Reported decides in place of Gate about checks with the field X-Hotparam-Reports; nil ignores the field.
	Reported Reported
	// Clients finds the client of a request; nil trusts no proxy before the gateway.
	Clients *httplimit.Clients
	// Dialect is required.
	Dialect Dialect
	// PathPrefix precedes the path of the request in the dialect [Path].
	PathPrefix string
	// DenyStatus is a 4xx; 0 means 429, and 403 for nginx and ingress-nginx, which know 401 and 403 only.
	DenyStatus int
	// Answers configures the responses to verdicts. DenyStatus sets its Status.
	Answers httplimit.Responder
	// RequestID names the field in which the gateway sends an id of its own for each request, or is empty if there is
	// none. A check that is repeated within a second is then charged once.
	RequestID string
	// HideAuthorization is true if the field Authorization belongs to the gateway, so that rules do not see it.
	HideAuthorization bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives checks that describe no request; nil discards them.
	Log *slog.Logger
}

// Handler answers checks. Any number of goroutines may use it.
type Handler struct {
	cfg     Config
	repeats *dedup // nil if each check is charged

	checks, denied, malformed, repeated atomic.Uint64
}

// Stats are the counters of a handler since it was built.
type Stats struct {
	Checks    uint64 `metric:"hotparam_check_checks_total" help:"Requests that a gateway asked about."`
	Denied    uint64 `metric:"hotparam_check_denied_total" help:"Requests that a gateway asked about and that were denied."`
	Repeated  uint64 `metric:"hotparam_check_repeated_total" help:"Checks that repeat the request id of an earlier check; they have its verdict and are not charged."`
	Malformed uint64 `metric:"hotparam_check_malformed_total" help:"Checks that are malformed in the dialect of the listener; they are denied."`
}

// New returns a handler. Its error names the wrong setting.
func New(cfg Config) (*Handler, error) {
	if err := cfg.completeSettings(); err != nil {
		return nil, err
	}
	h := &Handler{cfg: cfg}
	if cfg.RequestID != "" {
		h.repeats = newDedup()
	}
	return h, nil
}

// completeSettings sets defaults and rejects settings whose responses a gateway would misread.
func (c *Config) completeSettings() error {
	if !slices.Contains(Dialects, c.Dialect) {
		return fmt.Errorf("forwardauth: dialect %q: set --check.dialect to one of %s", c.Dialect,
			strings.Trim(strings.ReplaceAll(fmt.Sprint(Dialects), " ", ", "), "[]"))
	}
	nginx := c.Dialect == Nginx || c.Dialect == IngressNginx
	usual := http.StatusTooManyRequests
	if nginx {
		usual = http.StatusForbidden
	}
	c.DenyStatus = cmp.Or(c.DenyStatus, usual)
	switch {
	case c.DenyStatus < 400 || c.DenyStatus > 499:
		return fmt.Errorf("forwardauth: --check.deny_status %d must be 400 to 499; gateways take others for a broken limiter",
			c.DenyStatus)
	case nginx && c.DenyStatus != http.StatusUnauthorized && c.DenyStatus != http.StatusForbidden:
		return fmt.Errorf(
			"forwardauth: --check.deny_status %d must be 401 or 403 with the dialect %s, because nginx makes 500 of others",
			c.DenyStatus, c.Dialect)
	}
	c.Answers.Status = c.DenyStatus
	c.RequestID = http.CanonicalHeaderKey(c.RequestID)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

func (h *Handler) Stats() Stats {
	return Stats{
		Checks: h.checks.Load(), Denied: h.denied.Load(), Repeated: h.repeated.Load(),
		Malformed: h.malformed.Load(),
	}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.cfg.HideAuthorization {
		r.Header.Del("Authorization")
	}
	req, err := h.requestOf(r)
	if err != nil {
		h.rejectCheck(w, err)
		return
	}
	one := h.decideCheck(r, &req)
	v := one.verdict
	httplimit.Quote(&v)
	h.checks.Add(1)
	if !v.Allowed {
		h.denied.Add(1)
	}
	setVerdict(w.Header(), &v)
	if one.report != 0 {
		w.Header()[fieldReport] = []string{strconv.FormatUint(one.report, 16)}
	}
	if !v.Allowed {
		denied := httplimit.Denied{Method: req.Method, Accept: r.Header["Accept"], TLS: h.clientUsesTLS(r)}
		h.cfg.Answers.WriteDenied(w, denied, &v)
		return
	}
	if h.cfg.Answers.Enforce(w, r, &v) {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusOK)
	}
}

// decideCheck returns the decision of the gate, or the decision about the first check if the check repeats it.
func (h *Handler) decideCheck(r *http.Request, req *hottype.Request) decision {
	decide := func() (d decision) {
		if promise := r.Header.Get(fieldReports); promise != "" && h.cfg.Reported != nil {
			d.verdict, d.report = h.cfg.Reported.Decide(r.Context(), h.cfg.Now(), req, promise)
			return d
		}
		d.verdict = h.cfg.Gate.DecideForGateway(r.Context(), h.cfg.Now(), req)
		return d
	}
	id := r.Header[h.cfg.RequestID]
	if h.repeats == nil || len(id) != 1 || id[0] == "" {
		return decide()
	}
	d, repeated := h.repeats.decideOnce(h.cfg.Now(), id[0], req, decide)
	if repeated {
		h.repeated.Add(1)
	}
	return d
}

// rejectCheck answers a check that describes no request, and logs the reason, because the cause is a wrongly configured
// gateway.
func (h *Handler) rejectCheck(w http.ResponseWriter, err error) {
	n := h.malformed.Add(1)
	h.cfg.Log.Warn("forwardauth: a check describes no request and is denied", "dialect", h.cfg.Dialect, "err", err,
		"count", n)
	status := http.StatusBadRequest
	if errors.Is(err, errNotFound) {
		status = http.StatusNotFound
	}
	w.Header().Set(fieldReason, "bad_check")
	httplimit.WriteProblem(w, status, "This is not a check in the dialect "+string(h.cfg.Dialect)+": "+err.Error()+".")
}

// Fields of the response beside the RateLimit fields, in the form in which net/http keeps them. Gateways read them for
// their logs, and for details that the status cannot carry.
const (
	fieldReason = "X-Hotparam-Reason"
	fieldRule   = "X-Hotparam-Rule"
	fieldKey    = "X-Hotparam-Key"
	fieldHot    = "X-Hotparam-Hot"
	fieldRetry  = "X-Hotparam-Retry-Ms"
	fieldReport = "X-Hotparam-Report"
	// fieldReports is the field of the question by which a gateway promises to report the end of the request.
	fieldReports = "X-Hotparam-Reports"
)

// setVerdict sets the fields that explain a verdict:
//
//	X-Hotparam-Reason: hot
//	X-Hotparam-Rule: topic
//	X-Hotparam-Key: topic?id=42
//	X-Hotparam-Hot: true
//	X-Hotparam-Retry-Ms: 20
//
// Retry-Ms is the time after which a denied request may be allowed, in milliseconds. Rule and key are absent if the
// verdict does not have them, Hot if no key of the request is hot. Bytes that a field cannot hold are percent-encoded.
func setVerdict(h http.Header, v *hottype.Verdict) {
	h[fieldReason] = []string{v.Reason.String()}
	if v.Rule != "" {
		h[fieldRule] = []string{escapeField(v.Rule)}
	}
	if v.Key != "" {
		h[fieldKey] = []string{escapeField(string(v.Key))}
	}
	if v.Hot {
		h[fieldHot] = []string{"true"}
	}
	if ms := httplimit.Millis(v.RetryAfter); !v.Allowed && ms > 0 {
		h[fieldRetry] = []string{strconv.FormatInt(ms, 10)}
	}
}

// escapeField returns a text with all bytes but visible ASCII percent-encoded. Quotes and backslashes are encoded too,
// because gateways write the fields into strings of JSON.
func escapeField(s string) string {
	return string(httplimit.AppendEscaped(make([]byte, 0, len(s)), s, func(c byte) bool {
		return c > ' ' && c < 0x7f && c != '"' && c != '\\'
	}))
}
