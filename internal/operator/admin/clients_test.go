package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/report"
)

// The denials of clients, and no other denials, are shared out by the samples.
func TestDeniedClients_AreListedWithTheirRates(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	s.answer(t, w.ask(http.MethodPut, "/v1/overrides/b", `{"client": "192.0.2.9", "action": "block"}`), 201, "Stored")
	for n := uint64(1); n <= 2; n++ {
		w.second(report.Limiter{Instance: "a", At: t0.Add(time.Duration(n) * time.Second),
			Denied:        report.Denials{hottype.ReasonIPFixed: 60 * n, hottype.ReasonBlocked: 5020 * n},
			ClientDenials: 80 * n, DeniedSampled: 20,
			DeniedClients: []report.DeniedClient{
				{Client: "198.51.100.9", Network: "198.51.100.0/24", Class: "crawler", N: 15,
					Reasons: []report.NameCount{{Name: "ip_fixed", N: 15}}, Keys: []report.NameCount{{Name: "topic?id=1", N: 6}}},
				{Client: "192.0.2.9", Network: "192.0.2.0/24", N: 5, Reasons: []report.NameCount{{Name: "blocked", N: 5}}},
			}})
	}
	rec := w.ask(http.MethodGet, "/v1/clients", "")
	s.answer(t, rec, 200, "Clients")
	for _, want := range []string{`"client":"198.51.100.9","network":"198.51.100.0/24","class":"crawler",` +
		`"denied_per_second":60,"reasons":[{"name":"ip_fixed","share":1}],"keys":[{"key":"topic?id=1",` +
		`"href":"/v1/key?key=topic%3Fid%3D1","share":0.4}],"address":true,"override":null`,
		`"client":"192.0.2.9"`, `"denied_per_second":20`, `"override":{"id":"b"`} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %s in %s", want, rec.Body)
		}
	}
	s.answer(t, w.ask(http.MethodGet, "/v1/clients?limit=101", ""), 400, "Problem")
}

// clientsOf returns what GET /v1/clients answers after limiters have reported twice.
func clientsOf(t *testing.T, w *world, sent report.Limiter) (a struct {
	Clients  []DeniedClient
	Heaviest []live.HeavyClient
},
) {
	t.Helper()
	for n := uint64(1); n <= 2; n++ {
		r := sent
		r.Instance, r.At, r.Allowed = "a", t0.Add(time.Duration(n)*time.Second), n*sent.Allowed
		r.ClientDenials = n * sent.ClientDenials
		w.second(r)
	}
	if err := json.Unmarshal(w.ask(http.MethodGet, "/v1/clients", "").Body.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestClients_NeedSeveralSamples states that clients that were sampled once are not listed, because their rates would
// be invented.
func TestClients_NeedSeveralSamples(t *testing.T) {
	t.Parallel()
	sent := report.Limiter{Allowed: 200, ClientDenials: 100, DeniedSampled: 20}
	for i := range 20 {
		name := fmt.Sprintf("10.0.%d.1", i)
		sent.DeniedClients = append(sent.DeniedClients, report.DeniedClient{Client: name, N: 1})
		sent.Clients = append(sent.Clients, report.SampledClient{Client: name, N: 1})
	}
	if a := clientsOf(t, newWorld(t, nil), sent); len(a.Clients)+len(a.Heaviest) > 0 {
		t.Errorf("%+v", a)
	}
}

// Requests that are spread over the addresses of a network are seen, denied or not.
func TestHeaviestClients_NameNetworks(t *testing.T) {
	t.Parallel()
	sent := report.Limiter{Allowed: 260}
	for i := range 20 {
		sent.Clients = append(sent.Clients, report.SampledClient{Client: fmt.Sprintf("203.0.113.%d", 100+i), N: 1},
			report.SampledClient{Client: fmt.Sprintf("10.0.%d.1", i), N: 2})
	}
	sent.Clients = append(sent.Clients, report.SampledClient{Client: "198.51.100.9", Class: "crawler", N: 30},
		report.SampledClient{Client: "key <b>", N: 30})
	a := clientsOf(t, newWorld(t, nil), sent)
	got := ""
	for _, c := range a.Heaviest {
		got += fmt.Sprintf("%s %s %d %.0f/s %.3f; ", c.Client, c.Kind, c.Clients, *c.Requests, c.Share)
	}
	const want = "198.51.100.9 client 1 65/s 0.250; key <b>  1 65/s 0.250; 203.0.113.0/24 cidr 20 43/s 0.167; "
	if got != want {
		t.Errorf("%s", got)
	}
}
