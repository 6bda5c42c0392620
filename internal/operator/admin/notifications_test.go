package admin

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// hooks are webhooks that only note who asked for a test.
type hooks struct{ author string }

func (h *hooks) Webhooks() []Webhook {
	return []Webhook{{Name: "ops", Format: "slack", Events: []string{"hot"}, Sent: 3, Error: "answered 500", At: t0}}
}

func (h *hooks) Test(_ context.Context, name, author string) []WebhookTest {
	if name != "" && name != "ops" {
		return nil
	}
	h.author = author
	return []WebhookTest{{Name: "ops", Status: 500, Error: "answered 500", TookMS: 1.5}}
}

func TestNotifications_ListAndTestWebhooks(t *testing.T) {
	t.Parallel()
	s, h := loadSchemas(t), &hooks{}
	w := newWorld(t, func(c *Config) { c.Notify = h })
	s.answer(t, w.ask(http.MethodGet, "/v1/notifications", ""), http.StatusOK, "Webhooks")
	s.answer(t, w.ask(http.MethodPost, "/v1/notifications/test?name=ops&author=ann", ""), http.StatusOK, "WebhookTests")
	if h.author != "ann" {
		t.Errorf("author %q", h.author)
	}
	s.answer(t, w.ask(http.MethodPost, "/v1/notifications/test?name=other", ""), http.StatusNotFound, "Problem")
	none := newWorld(t, func(*Config) {})
	s.answer(t, none.ask(http.MethodGet, "/v1/notifications", ""), http.StatusOK, "Webhooks")
	rec := none.ask(http.MethodPost, "/v1/notifications/test", "")
	s.answer(t, rec, http.StatusNotFound, "Problem")
	if !strings.Contains(rec.Body.String(), "notifications.webhooks") {
		t.Error(rec.Body)
	}
}
