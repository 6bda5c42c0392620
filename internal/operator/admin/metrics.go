package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// maxLabelled is how many hot keys have a metric of their own.
const maxLabelled = 100

// maxLabel is the longest label that a key may become, in bytes.
const maxLabel = 200

func (s *Server) newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "hotparam_info", Help: "Always 1; says which namespace and version this is.",
		ConstLabels: prometheus.Labels{"namespace": printable(s.cfg.Namespace), "version": printable(s.cfg.Version)}})
	info.Set(1)
	reg.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newPicture(s), Gather("admin", func() any { return s.Stats() }))
	for room, stats := range s.cfg.Stats {
		reg.MustRegister(Gather(room, stats))
	}
	return reg
}

func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		// One room with a wrong field must not hide all the others.
		ErrorHandling:       promhttp.ContinueOnError,
		ErrorLog:            slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelError),
		MaxRequestsInFlight: 4,
	}).ServeHTTP(w, r)
	return nil
}

// picture collects what the sampler sees: decisions of all limiters, and the
// hot keys.
type picture struct {
	s                                           *Server
	allowed, denied, limiters, hot, loops, rate *prometheus.Desc
}

func newPicture(s *Server) *picture {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &picture{
		s:        s,
		allowed:  desc("hotparam_allowed_total", "Requests that all limiters allowed since this process started."),
		denied:   desc("hotparam_denied_total", "Requests that all limiters denied since this process started, by what denied.", "reason"),
		limiters: desc("hotparam_limiters", "Limiters that reported within the last 5 seconds."),
		hot:      desc("hotparam_hot_keys", "Keys that are hot now."),
		loops:    desc("hotparam_loops", "Keys over their threshold because of one or a few clients; not hot, not limited."),
		rate:     desc("hotparam_hot_key_rate", fmt.Sprintf("Requests per second of the %d hottest keys.", maxLabelled), "key", "rule"),
	}
}

// Describe lists the six metrics.
func (p *picture) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.allowed, p.denied, p.limiters, p.hot, p.loops, p.rate} {
		out <- d
	}
}

// Collect reads the sampler's totals and the hot list of now.
func (p *picture) Collect(out chan<- prometheus.Metric) {
	now, hot := p.s.cfg.Now(), p.s.cfg.Hot()
	p.s.mu.Lock()
	total, limiters := p.s.rates.total, p.s.rates.now(now).Limiters
	p.s.mu.Unlock()
	out <- prometheus.MustNewConstMetric(p.allowed, prometheus.CounterValue, float64(total.Allowed))
	for _, d := range denials(total.Denied) {
		out <- prometheus.MustNewConstMetric(p.denied, prometheus.CounterValue, float64(d.n), d.name)
	}
	out <- prometheus.MustNewConstMetric(p.limiters, prometheus.GaugeValue, float64(limiters))
	out <- prometheus.MustNewConstMetric(p.hot, prometheus.GaugeValue, float64(len(hot)))
	out <- prometheus.MustNewConstMetric(p.loops, prometheus.GaugeValue, float64(len(p.s.loops())))
	for _, h := range hottest(hot, maxLabelled) {
		out <- prometheus.MustNewConstMetric(p.rate, prometheus.GaugeValue, h.Rate, labelOf(string(h.Key)), labelOf(h.Rule))
	}
}

// hottest gives the most keys with the highest rate, each key once: a key that
// two rules count would otherwise be two equal series and fail the scrape.
func hottest(hot []hottype.Hot, most int) []hottype.Hot {
	sorted := slices.Clone(hot)
	slices.SortStableFunc(sorted, func(a, b hottype.Hot) int {
		switch {
		case a.Rate > b.Rate:
			return -1
		case a.Rate < b.Rate:
			return 1
		}
		return strings.Compare(string(a.Key), string(b.Key))
	})
	type id struct{ key, rule string }
	seen := map[id]bool{}
	sorted = slices.DeleteFunc(sorted, func(h hottype.Hot) bool {
		k := id{string(h.Key), h.Rule}
		was := seen[k]
		seen[k] = true
		return was
	})
	return sorted[:min(len(sorted), most)]
}

// labelOf makes a label of a key: printable, and cut where it is long, with a
// hash that keeps cut ones apart.
func labelOf(key string) string {
	shown := printable(key)
	if len(shown) <= maxLabel {
		return shown
	}
	sum := sha256.Sum256([]byte(key))
	return strings.ToValidUTF8(shown[:maxLabel-17], "") + "~" + hex.EncodeToString(sum[:8])
}

// printable percent-encodes what is not plain ASCII; keys hold such bytes only
// in paths.
func printable(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
