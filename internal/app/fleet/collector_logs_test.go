package fleet

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/rules"
)

// A log is read as its first line with a request shows, and its lists of addresses by the trusted proxies of the rules
// in force.
func TestAccessLogParse_FollowsFirstRequestAndRules(t *testing.T) {
	t.Parallel()
	c := &collector{log: slog.New(slog.DiscardHandler)}
	follow := func(ip string) {
		set, err := rules.Parse("rules", []byte(ip+"rules: [{name: all, params: [\"*\"], hot: {rate: 500}}]"))
		if err != nil {
			t.Fatal(err)
		}
		c.rules.Store(set)
	}
	const line = "2026-09-21T14:13:20.5Z stdout F 203.0.113.1, 198.51.100.9 - - [21/Sep/2026:14:13:20 +0000] \"GET / HTTP/1.1\" 200 1"
	var e accesslog.Entry
	l := &accessLog{name: "log", collector: c}
	follow("")
	if err := l.parse("starting", &e); err == nil || !strings.Contains(err.Error(), "--accesslog.log_format") {
		t.Errorf("no request: %v", err)
	}
	for _, tt := range []struct{ ip, client string }{
		{"", "198.51.100.9"}, {"ip: {trusted_proxies: [198.51.100.0/24]}\n", "203.0.113.1"}, {"", "198.51.100.9"},
	} {
		follow(tt.ip)
		if err := l.parse(line, &e); err != nil || e.Request.Client.String() != tt.client {
			t.Errorf("%q: client %s, want %s: %v", tt.ip, e.Request.Client, tt.client, err)
		}
	}
	if err := l.parse("203.0.113.7 - - [21/Sep/2026:14:13:20 +0000] \"GET / HTTP/1.1\" 200 1", &e); err == nil {
		t.Errorf("a line without the words before it has the client %s", e.Request.Client)
	}
	named := &accessLog{name: "log", collector: c, format: accesslog.JSON}
	if err := named.parse(line, &e); err == nil || !strings.Contains(err.Error(), "JSON object") {
		t.Errorf("another format: %v", err)
	}
}
