package program

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/notify"
)

// TestWebhookStatus_IsOneLine, which is good only while each works and has lost nothing for an hour.
func TestWebhookStatus_IsOneLine(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	good, bad := notify.WebhookStats{Sent: 3}, notify.WebhookStats{Failing: true, Err: "answered 503"}
	lost := notify.WebhookStats{Failed: 2, LostAt: now.Add(-59 * time.Minute)}
	old := notify.WebhookStats{Failed: 2, LostAt: now.Add(-time.Hour)}
	for _, c := range []struct {
		all  map[string]notify.WebhookStats
		want admin.Status
	}{
		{map[string]notify.WebhookStats{"a": good, "b": old}, admin.Status{Name: "webhooks", Value: "2 of 2 work", OK: true}},
		{map[string]notify.WebhookStats{"a": good, "b": lost},
			admin.Status{Name: "webhooks", Value: "1 of 2 work; lost events: b"}},
		{map[string]notify.WebhookStats{"a": bad, "b": bad, "c": lost, "d": good},
			admin.Status{Name: "webhooks", Value: "1 of 4 work; failing: a and 1 more; lost events: c"}},
	} {
		if got := webhookStatus(c.all, now); len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}
