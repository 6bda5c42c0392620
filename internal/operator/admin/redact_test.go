package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/rules"
)

// A key that a person types is stored, shown and found without the redacted value.
func TestOverrides_StoreRedactedKeys(t *testing.T) {
	t.Parallel()
	set, err := rules.ParseWith("rules.yaml", []byte("redact: {token: hash}\n"+rulesFile+
		"  - {key: \"/login?token=secret\", action: block}\n"), rules.Options{Secret: []byte("s3cret-of-the-test")})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) { c.Rules = func() *rules.Set { return set } })
	key, err := set.RedactKey("/login?token=secret")
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, c := range []struct {
		method, target, body string
		status               int
	}{
		{http.MethodPut, "/v1/overrides", `{"key": "/login?token=secret", "rate": 5}`, 201},
		{http.MethodPut, "/v1/overrides", `{"key": "` + key + `", "rate": 6}`, 200},
		{http.MethodPut, "/v1/overrides", `{"key": "/login?token=sec*", "rate": 6}`, 400},
		{http.MethodGet, "/v1/keys/%2Flogin%3Ftoken=secret", "", 200},
		{http.MethodGet, "/v1/overrides", "", 200},
		{http.MethodGet, "/v1/audit", "", 200},
	} {
		rec := w.ask(c.method, c.target, c.body)
		if rec.Code != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.target, rec.Code, rec.Body)
		}
		said += rec.Body.String()
	}
	if strings.Contains(said, "secret") || len(w.store.list) != 1 || w.store.list[0].Key != key {
		t.Errorf("%+v\n%s", w.store.list, said)
	}
}
