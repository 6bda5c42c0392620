package adaptertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/hotparam/pipeline/hotparam"
)

// Judged returns what hotparam.FromContext finds in the context of a handler, as text.
func Judged(ctx context.Context) string {
	j, ok := hotparam.FromContext(ctx)
	return fmt.Sprint(j.Client, " ", j.Verdict.Rule, " ", j.Verdict.Remaining, " ", ok)
}

// inContext: handlers find the verdict and the client in their context with InContext alone.
func (s *Site[C]) inContext(t *testing.T) {
	o := hotparam.Options[C]{
		InContext: true,
		Skip:      func(c C) bool { return s.Header(c, "X-Skip") != "" },
		Client:    func(c C) (string, error) { return s.Header(c, "X-Key"), nil },
	}
	with := s.Serve(t, s.pipeline(t, 5), o)
	o.InContext = false
	without := s.Serve(t, s.pipeline(t, 5), o)
	for _, c := range []struct {
		addr        string
		name, value string
		want        string
	}{
		{with, "X-Forwarded-For", "198.51.100.1", "198.51.100.1 ip_sliding 4 true"},
		{with, "X-Forwarded-For", "198.51.100.99, 198.51.100.1", "198.51.100.1 ip_sliding 3 true"},
		{with, "X-Forwarded-For", "2001:db8::7", "2001:db8:: ip_sliding 4 true"},
		{with, "X-Key", "anna", "anna ip_sliding 4 true"},
		{with, "X-Skip", "1", "-  0 false"},
		{without, "X-Key", "anna", "-  0 false"},
	} {
		if r := get(t, c.addr, "/judged", map[string]string{c.name: c.value}); r.status != 200 || r.body != c.want {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}
