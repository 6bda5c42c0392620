package program

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/auth"
	"github.com/hotparam/pipeline/internal/textfile"
)

// withTokens is a file of rules in which ann holds a token.
func withTokens(tokens ...string) string {
	lines := make([]string, len(tokens))
	for i, token := range tokens {
		lines[i] = auth.FormatToken(auth.Operator, token, time.Time{})
	}
	return goodRules + "admin: {tokens: {ann: '" + strings.Join(lines, ", ") + "'}}\n"
}

// A token is replaced without a restart and without a gap. An invalid token, or the absence of the last one, leaves
// everything unchanged.
func TestReloader_ReplacesTokens(t *testing.T) {
	t.Parallel()
	before, after := auth.NewToken(), auth.NewToken()
	r := startReloading(t, withTokens(before))
	var tokens map[string]string
	tokens, _ = r.file.Setting("admin.tokens").(map[string]string)
	who, err := readCredentials(config.Admin{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	s, err := admin.New(admin.Config{Access: who, Config: live.Config{
		Hot: func() []hottype.HotKey { return nil }, Rules: rules.Default, Log: slog.New(slog.DiscardHandler),
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.checkSettings = tokenReplacer(s)
	r.after(2 * textfile.Settle)
	status := func(token string) int {
		req, rec := httptest.NewRequest(http.MethodGet, "/v1/hot", nil), httptest.NewRecorder()
		req.Header.Set("Authorization", "Bearer "+token)
		s.Handler().ServeHTTP(rec, req)
		return rec.Code
	}
	for _, step := range []struct {
		text           string
		says           string
		oldOne, newOne int
	}{
		{withTokens(before), "", 200, 401},
		{withTokens(before, after), "configuration read again", 200, 200},
		{withTokens(after), "configuration read again", 401, 200},
		{goodRules, "the last token of admin is gone", 401, 200},
		{withTokens(after) + "rules: [", "", 401, 200},
		{strings.Replace(withTokens(before), "operator", "root", 1), "ann: the role must be", 401, 200},
	} {
		r.write(step.text)
		if said := r.after(2 * textfile.Settle); !strings.Contains(said, step.says) || strings.Contains(said, before) ||
			strings.Contains(said, after) {
			t.Errorf("want %q, said %s", step.says, said)
		}
		if a, b := status(before), status(after); a != step.oldOne || b != step.newOne {
			t.Errorf("after %q: old %d, new %d, want %d and %d", step.says, a, b, step.oldOne, step.newOne)
		}
	}
}
