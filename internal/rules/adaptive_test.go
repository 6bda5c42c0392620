package rules

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/limit"
)

func TestAdaptive(t *testing.T) {
	t.Parallel()
	set, err := Parse("f.yaml", []byte(`
upstreams:
  - {name: default, url: "http://127.0.0.1:3000", target: {latency: 250ms, quantile: 0.95, errors: 0.02}}
  - {name: search, target: auto}
  - {name: archive, target: {latency: auto}}
rules:
  - {name: a, params: [id], match: {path: /a}, hot: {rate: 1}, limit: {adaptive: true, min: 20, max: 2000}}
  - name: b
    params: [id]
    match: {path: /b}
    hot: {rate: 1}
    limit: {adaptive: true, min: 30/m, max: 60, rate: 40, burst: 5, upstream: search, values: [{key: "b?id=1", rate: 7}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	a, b := set.Rules[0].Limit, set.Rules[1].Limit
	if diff := cmp.Diff(&Adaptive{Min: 20, Max: 2000, Upstream: "default"}, a.Adaptive); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&Adaptive{Min: 0.5, Max: 60, Burst: 5, Upstream: "search"}, b.Adaptive); diff != "" {
		t.Error(diff)
	}
	if got := b.Adaptive.String(); got != "adapts to the capacity of search, 0.5 to 60/s" {
		t.Error(got)
	}
	// Without a rate, the maximum applies while the capacity is not known.
	if want := (limit.Spec{Algorithm: limit.TokenBucket, Limit: 2000, Window: time.Second,
		Burst: 2000}); a.Spec != want {
		t.Errorf("%+v", a.Spec)
	}
	if b.Spec.Limit != 40 || set.Rules[1].LimitFor("b?id=1").Adaptive != nil {
		t.Errorf("%+v %+v", b.Spec, set.Rules[1].LimitFor("b?id=1"))
	}
	if diff := cmp.Diff([]string{"default", "search"}, set.AdaptiveUpstreams()); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]UpstreamTarget{
		"default": {Latency: 250 * time.Millisecond, Quantile: 0.95, Errors: 0.02}, "search": {Quantile: 0.9, Errors: 0.01}, "archive": {Quantile: 0.9, Errors: 0.01},
	} {
		if got := set.TargetOf(name); got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
