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

// A rejection names the file that was pushed, and an unknown limiter causes a warning.
func TestPushSaysWhatMayNotBeMeant(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"6"`)
		if r.Method == http.MethodPut && r.URL.Query().Get("only") == "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"detail":"version-7.yaml:1: rules[0].hot: is missing"}`))
			return
		}
		_, _ = w.Write([]byte(`{"store":"redis:","version":7,"limiters":[{"instance":"edge-1"}]}`))
	}))
	t.Cleanup(srv.Close)
	file := write(t, "rules: []\n")
	for _, tt := range []struct{ only, out, warn, err string }{
		{"", "", "", file + ":1: rules[0].hot: is missing"},
		{"edge-1", "version 7 is in redis\n", "", ""},
		{"edge-2", "version 7 is in redis\n", "no limiter that reports is called edge-2", ""},
	} {
		var out, warn bytes.Buffer
		c := rulesPushCmd{File: file, Only: tt.only}
		c.Admin, c.Timeout = srv.URL, time.Minute
		err := c.Run(t.Context(), &kong.Kong{Stdout: &out, Stderr: &warn})
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) ||
			out.String() != tt.out || !strings.Contains(warn.String(), tt.warn) || tt.warn == "" && warn.Len() > 0 {
			t.Errorf("%q: %v\n%s%s", tt.only, err, &out, &warn)
		}
	}
}

// A table without rows is no quiet site where something cannot be read.
func TestHotLsTellsTrouble(t *testing.T) {
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
