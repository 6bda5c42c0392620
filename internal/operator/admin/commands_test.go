package admin

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

func TestCommands_AreSentToLimiters(t *testing.T) {
	t.Parallel()
	var got []report.Command
	w := newWorld(t, func(c *Config) {
		c.Command = func(_ context.Context, cmd report.Command) (int, error) { got = append(got, cmd); return 3, nil }
	})
	s := loadSchemas(t)
	addr := func(a string) hottype.Client { return hottype.Client{Addr: netip.MustParseAddr(a)} }
	for _, c := range []struct {
		path, answer, body string
		want               report.Command
	}{
		{"keys/topic%3Fid=42/purge", "Purged", `"purged":3`, report.Command{Action: "purge", Key: "topic?id=42"}},
		{"keys/topic%3Fid=42/reset", "Reset", `"key":"topic?id=42"`,
			report.Command{Action: "reset", Key: "topic?id=42"}},
		{"keys/topic%3Fid=%252Fa%2Fb/reset", "Reset", `"key":"topic?id=`,
			report.Command{Action: "reset", Key: "topic?id=%2Fa%2Fb"}},
		{"clients/192.0.2.7/reset", "Reset", `"client":"192.0.2.7"`,
			report.Command{Action: "reset", Client: addr("192.0.2.7")}},
		{"clients/2001:db8::7/reset", "Reset", `"client":"2001:db8::"`,
			report.Command{Action: "reset", Client: addr("2001:db8::")}},
		{"clients/2001:db8::%2F64/reset", "Reset", `"client":"2001:db8::"`,
			report.Command{Action: "reset", Client: addr("2001:db8::")}},
		{"clients/anna/reset", "Reset", `"client":"anna"`,
			report.Command{Action: "reset", Client: hottype.Client{Name: "anna"}}},
	} {
		rec := w.ask(http.MethodPost, "/v1/"+c.path+"?author=ann", "")
		s.answer(t, rec, 200, c.answer)
		if last := got[len(got)-1]; last != c.want || !strings.Contains(rec.Body.String(), c.body) {
			t.Errorf("%s: %+v, %s", c.path, last, rec.Body)
		}
		s.answer(t, w.ask(http.MethodGet, "/v1/"+c.path, ""), 405, "Problem")
		s.answer(t, newWorld(t, nil).ask(http.MethodPost, "/v1/"+c.path, ""), 404, "Problem")
	}
	if len(got) != 7 {
		t.Errorf("%d commands were given", len(got))
	}
	failing := newWorld(t, func(c *Config) {
		c.Command = func(context.Context, report.Command) (int, error) { return 0, errors.New("no redis") }
	})
	s.answer(t, failing.ask(http.MethodPost, "/v1/keys/topic%3Fid=42/reset", ""), 503, "Problem")
}
