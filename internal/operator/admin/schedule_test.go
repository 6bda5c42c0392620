package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/rules"
)

func TestOverrides_WithScheduleAreAdded(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t, nil), loadSchemas(t)
	const body = `{"key": "topic?id=42", "rate": 500, "schedule": {"from": "0 20 * * *", "for": "2h", "zone": "Europe/Berlin"}}`
	rec := w.ask(http.MethodPut, "/v1/overrides", body)
	s.answer(t, rec, http.StatusCreated, "Stored")
	if !strings.Contains(rec.Body.String(), `"active":false`) || !strings.Contains(rec.Body.String(), `"next":"`) {
		t.Errorf("stored %s", rec.Body)
	}
	// It is added to one without a schedule, and does not replace it.
	s.answer(t, w.ask(http.MethodPut, "/v1/overrides", `{"key": "topic?id=42", "action": "block"}`), http.StatusCreated,
		"Stored")
	s.answer(t, w.ask(http.MethodPut, "/v1/overrides", body), http.StatusOK, "Stored")
	list := w.ask(http.MethodGet, "/v1/overrides", "")
	s.answer(t, list, http.StatusOK, "OverrideList")
	if n := strings.Count(list.Body.String(), `"key":"topic?id=42"`); n != 2 {
		t.Errorf("%d overrides of the key in %s", n, list.Body)
	}
	for _, tt := range []struct{ schedule, want string }{
		{`{"from": "0 0 30 2 *", "for": "2h"}`, "never begins"},
		{`{"from": "0 20 * * *", "for": "long"}`, "is not a time such as"},
		{`{"from": "@every 1h", "for": "1m"}`, "@every"},
		{`{}`, ""}, {`"evening"`, ""},
	} {
		rec := w.ask(http.MethodPut, "/v1/overrides", `{"key": "topic?id=7", "rate": 5, "schedule": `+tt.schedule+`}`)
		s.answer(t, rec, http.StatusBadRequest, "Problem")
		if text := rec.Body.String(); !strings.Contains(text, tt.want) ||
			!strings.Contains(text, `"field":"schedule"`) {
			t.Errorf("schedule %s: %s", tt.schedule, text)
		}
	}
	rec = w.ask(http.MethodPut, "/v1/overrides",
		`{"key": "topic?id=7", "rate": 5, "for": "1m", "schedule": {"from": "0 0 1 1 *", "for": "1h"}}`)
	s.answer(t, rec, http.StatusBadRequest, "Problem")
}

func TestPublishSchedule_SendsBeginAndEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := rules.Override{ID: "evening", Key: "topic?id=42", Action: rules.ActionBlock,
		Schedule: rules.Schedule{From: "0 20 * * *", For: time.Hour}}
	w.PublishSchedule(o, true, t0)
	w.PublishSchedule(o, false, t0.Add(time.Hour))
	changes := w.Init(t0).Changes
	if len(changes) != 2 || changes[0].Kind != live.OverrideBegan || changes[1].Kind != live.OverrideEnded ||
		changes[0].Key != o.Key {
		t.Errorf("changes %+v", changes)
	}
}
