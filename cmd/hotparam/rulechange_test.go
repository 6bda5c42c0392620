package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/operator/admin"
)

// A rejection names the file that was pushed.
func TestRulesPush_NamesTheFile(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"6"`)
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"detail":"version-7.yaml:1: rules[0].hot: is missing"}`))
			return
		}
		_, _ = w.Write([]byte(`{"store":"redis:","version":6}`))
	}))
	t.Cleanup(srv.Close)
	c := rulesPushCmd{File: write(t, "rules: []\n")}
	c.Admin, c.Timeout = srv.URL, time.Minute
	var out bytes.Buffer
	err := c.Run(t.Context(), &kong.Kong{Stdout: &out})
	if err == nil || !strings.Contains(err.Error(), c.File+":1: rules[0].hot: is missing") || out.Len() > 0 {
		t.Errorf("%v\n%s", err, &out)
	}
}

// A table without rows is no quiet site where something cannot be read.
func TestHotLs_PrintsTrouble(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"keys":[],"loops":[],"trouble":["redis: no \u001b answer"]}`))
	}))
	t.Cleanup(srv.Close)
	var out, warn bytes.Buffer
	c := hotLsCmd{}
	c.Admin, c.Timeout, c.Output = srv.URL, time.Minute, "text"
	if err := c.Run(t.Context(), &kong.Kong{Stdout: &out, Stderr: &warn}); err != nil ||
		warn.String() != "hotparam: redis: no \uFFFD answer\n" {
		t.Errorf("%v %q", err, &warn)
	}
}

// A dry run prints the effect of windows of clients below the keys, and names the windows that it has not tried.
func TestWriteDryRun_PrintsWindowsOfClients(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]*admin.WindowTrials{
		"tried on 3 minutes of history: 0 keys change, 2 do not; nothing was stored\n": nil,
		`tried on 3 minutes of history: 0 keys change, 2 do not; nothing was stored
windows of clients are not tried: no reports
`: {NotTried: []string{"no reports"}},
		`tried on 3 minutes of history: 0 keys change, 2 do not; nothing was stored
windows of clients, by 120 sampled requests of the last minute; clients below 4.17/s are not known
WINDOWS OF        REQUESTS  DENIED  WOULD BE  CLIENTS  WOULD BE  OF  SUCH AS
ip, all requests  100/s     10.5/s  10.5/s    1        1         3   192.0.2.7
login             12.3/s    0/s     9.83/s    0        2         2   192.0.2.7 198.51.100.9
windows of clients are not tried: a window by X-Account
`: {Sampled: 120, KnownFrom: new(4.166), NotTried: []string{"a window by X-Account"}, Rules: []admin.WindowTrial{
			{Requests: new(100.0), Clients: 3, DeniedBefore: new(10.5), DeniedAfter: new(10.5), ClientsBefore: 1,
				ClientsAfter: 1, Examples: []string{"192.0.2.7"}},
			{Rule: "login", Requests: new(12.3), Clients: 2, DeniedBefore: new(0.0), DeniedAfter: new(9.83),
				ClientsAfter: 2, Examples: []string{"192.0.2.7", "198.51.100.9"}},
		}},
	} {
		var b strings.Builder
		err := writeDryRun(&b, &admin.DryRun{Minutes: 3, Unchanged: 2, Windows: w})
		if got := strings.ReplaceAll(b.String(), " \n", "\n"); err != nil || got != want {
			t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
		}
	}
}
