package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
)

// Notifier sends events to webhooks. Package notify has one.
type Notifier interface {
	// Webhooks is the state of each.
	Webhooks() []Webhook
	// Test sends a test event, requested by author, to the webhook of a name, or to all if it is "". There is no
	// result if no webhook has the name.
	Test(ctx context.Context, name, author string) []WebhookTest
}

// Webhook is one webhook and how it does. Sent, Failed and Dropped are events since the start.
type Webhook struct {
	Name    string   `json:"name"`
	Format  string   `json:"format"`
	Events  []string `json:"events"`
	Sent    uint64   `json:"sent"`
	Failed  uint64   `json:"failed"`  // given up
	Dropped uint64   `json:"dropped"` // its queue was full
	Queued  int      `json:"queued"`
	// Error is why the last attempt failed, absent after one that did not.
	Error string `json:"error,omitempty"`
	// At is when the last attempt was made, absent before the first.
	At time.Time `json:"last_attempt,omitzero"`
}

// WebhookTest is how the test of one webhook ended.
type WebhookTest struct {
	Name   string  `json:"name"`
	OK     bool    `json:"ok"`
	Status int     `json:"status,omitempty"` // of HTTP; absent where there was no answer
	Error  string  `json:"error,omitempty"`
	TookMS float64 `json:"took_ms"`
}

// getNotifications lists the webhooks: GET /v1/notifications.
func (s *Server) getNotifications(w http.ResponseWriter, _ *http.Request) error {
	list := []Webhook{}
	if s.cfg.Notify != nil {
		list = append(list, s.cfg.Notify.Webhooks()...)
	}
	return web.WriteJSON(w, http.StatusOK, map[string]any{"webhooks": list})
}

// testNotifications sends a test event: POST /v1/notifications/test?name=NAME&author=WHO. It is answered 200 whether
// the webhooks took it or not; each result says so.
func (s *Server) testNotifications(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	name, results := q.Get("name"), []WebhookTest{}
	if s.cfg.Notify != nil {
		results = s.cfg.Notify.Test(r.Context(), name, web.Author(r))
	}
	if len(results) == 0 {
		if name == "" {
			return web.NewProblem(http.StatusNotFound, "this program has no webhook",
				"set notifications.webhooks of an aggregator or hotparam serve")
		}
		p := web.NewProblem(http.StatusNotFound, "there is no webhook of the name "+web.Quoted(name),
			"GET /v1/notifications lists them")
		p.Field = "name"
		return p
	}
	return web.WriteJSON(w, http.StatusOK, map[string]any{"results": results})
}
