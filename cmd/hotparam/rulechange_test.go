package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
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
