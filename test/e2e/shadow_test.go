package e2e

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// shadowed is the part of an override in shadow mode that the test reads.
type shadowed struct {
	Hits      uint64
	WouldDeny uint64 `json:"would_deny"`
}

// listedShadow returns an override as an API lists it, or the zero value if it is not listed.
func listedShadow(t *testing.T, admin, id string) (o shadowed) {
	t.Helper()
	if status, body := get(t, "http://"+admin+"/v1/overrides/"+id); status == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &o); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// Two limiters try one limit, each with its half: requests that it would deny are counted once for both, and no request
// is denied. One step later the limit is enforced, with its own tokens.
func TestShadow_CountsOnceOverTwoLimiters(t *testing.T) {
	t.Parallel()
	redis, admin := redistest.Start(t), freeport.Addr(t)
	config := write(t, "hotparam.yaml", pipelineRules)
	launch(t, "aggregator", "--config", config, "--redis.addr", redis.Addr(), "--statsd.listen", freeport.Addr(t),
		"--admin.listen", admin)
	var decide, admins [2]string
	for i := range decide {
		decide[i], admins[i] = freeport.Addr(t), freeport.Addr(t)
		launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis.Addr(), "--sidecar.count", "none",
			"--decide.listen", decide[i], "--admin.listen", admins[i], "--gate.budget", budget)
	}
	for _, a := range append(admins[:], admin) {
		ready(t, a)
	}
	// passed asks each limiter n times, and returns how many requests passed and how many of these shadow mode would
	// have denied.
	passed := func(n int) (allowed, shadowed int) {
		t.Helper()
		for i := range 2 * n {
			_, body := do(t, http.MethodPost, "http://"+decide[i%2]+"/v1/decide",
				`{"method":"GET","uri":"/topic?id=tried","ip":"192.0.2.`+strconv.Itoa(i)+`"}`,
				http.Header{"Content-Type": {"application/json"}})
			if strings.Contains(body, `"allowed":true`) {
				allowed++
			}
			if strings.Contains(body, `"mode":"shadow"`) {
				shadowed++
			}
		}
		return allowed, shadowed
	}
	status, body := do(t, http.MethodPut, "http://"+admin+"/v1/overrides/try",
		`{"key":"topic?id=tried","rate":0.001,"burst":6,"mode":"shadow","author":"ann"}`, nil)
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	have := func() bool { // a limiter lists the overrides in Redis and reports the one in force
		_, body := get(t, "http://"+admin+"/v1/limiters")
		return strings.Count(body, `"current":true`) == 2 && !strings.Contains(body, `"current":false`)
	}
	program.Await(t, time.Minute, "both limiters to have the override", have)
	// Each limiter judges by half of the limit once a report of the other one has reached it, by all of it before.
	allowed, shadowed := passed(10)
	if allowed != 20 || shadowed < 20-2*6 || shadowed > 20-2*3 {
		t.Errorf("%d of 20 passed, want all; %d in shadow mode, want 8 to 14", allowed, shadowed)
	}
	program.Await(t, time.Minute, "the limiters to report 20 requests, and those that it would have denied",
		func() bool {
			o := listedShadow(t, admin, "try")
			return o.Hits == 20 && o.WouldDeny == uint64(shadowed)
		})

	if status, body := do(t, http.MethodPost, "http://"+admin+"/v1/overrides/try/enforce?author=bob", "",
		nil); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	begin := time.Now()
	program.Await(t, time.Minute, "both limiters to enforce it", have)
	if took := time.Since(begin); took > time.Second+slack {
		t.Errorf("enforced after %v", took)
	}
	if allowed, shadowed := passed(10); allowed != 6 || shadowed != 0 {
		t.Errorf("enforced: %d of 20 passed, want 6; %d in shadow mode", allowed, shadowed)
	}
	if _, audit := get(t, "http://"+admin+"/v1/audit?id=try"); strings.Count(audit, `"action":"put"`) != 2 ||
		!strings.Contains(audit, `"bob"`) || strings.Count(audit, `"mode":"shadow"`) != 2 {
		t.Error(audit)
	}
}
