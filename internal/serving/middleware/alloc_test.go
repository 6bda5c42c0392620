//go:build !race

package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

// Not parallel: allocations of other tests would count.
func TestLayer_ColdRequestAllocatesNothing(t *testing.T) {
	clients := httplimit.NewClients([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, "")
	h := middleware.New(gate.New(gate.Config{}), middleware.Options{Clients: clients}).Wrap(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/topic?id=42&lang=en&page=3", nil)
	r.Header.Set("X-Forwarded-For", "198.51.100.7, 192.0.2.9")
	if n := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A refusal is written with one allocation: the values of its header fields.
func TestLayer_DenialAllocatesOnce(t *testing.T) {
	replica := new(hotset.Replica)
	replica.Replace("a", report.HotSet{Version: 1, Keys: []hottype.HotKey{
		{Key: "topic?id=42", Until: time.Now().Add(time.Hour)}}})
	set, err := rules.Parse("config.yaml", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	h := middleware.New(gate.New(gate.Config{Rules: set, Hot: replica}), middleware.Options{}).Wrap(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w, r := blank{http.Header{}}, httptest.NewRequest(http.MethodGet, "/topic?id=42", nil)
	for range 100 {
		h.ServeHTTP(w, r)
	}
	if n := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); n != 1 {
		t.Errorf("%v allocations", n)
	}
}
