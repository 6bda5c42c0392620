package program

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/operator/notify"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/historystore"
	"github.com/hotparam/pipeline/internal/wait"
)

type NotifierConfig struct {
	config.Notifications
	Instance string
	Leads    func() bool // nil: this process notifies
	// Store returns the error because of which the store of the limits fails, or nil if it works. Store itself is nil
	// if there is no such store.
	Store func(context.Context) error
	Log   *slog.Logger
}

// NotifyWebhooks notifies webhooks of the changes that an admin page shows, and of the state of store and upstreams. It
// adds the webhooks to the page and the metrics, and add adds them to the stages of a program.
func NotifyWebhooks(cfg NotifierConfig, adm *admin.Config, parts *[]metrics.Collector) (add func(*lifecycle.Stages),
	err error) {
	if len(cfg.Webhooks) == 0 {
		return func(*lifecycle.Stages) {}, nil
	}
	n, err := notify.New(notify.Config{
		Webhooks: cfg.Webhooks, Namespace: adm.Namespace, Instance: cfg.Instance, Version: adm.Version,
		IsLeader: cfg.Leads, Log: cfg.Log,
	}, time.Now())
	if err != nil {
		return nil, config.Usage("%w", err)
	}
	adm.Notify = webhooks{n}
	adm.OnChange = func(c admin.Change) { n.Notify(eventOf(&c)) }
	*parts = append(*parts, metrics.Of(n.Stats))
	upstreams := adm.Upstreams
	addStatus(adm, func() []admin.Status { return webhookStatus(n.Stats().Webhooks, time.Now()) })
	return func(s *lifecycle.Stages) {
		s.Add(lifecycle.Sinks, "notifications", n.Run)
		s.Add(lifecycle.Sinks, "conditions", func(ctx context.Context) error {
			return followConditions(ctx, n.Notify, cfg.Store, upstreams)
		})
	}, nil
}

// followConditions checks the store and the upstreams once a second until ctx ends.
func followConditions(ctx context.Context, tell func(notify.Event), store func(context.Context) error,
	upstreams func() []hottype.UpstreamLimit) error {
	var c notify.Conditions
	wait.Every(ctx, time.Second, func() {
		var hold []notify.Event
		if store != nil {
			short, cancel := context.WithTimeout(ctx, time.Second)
			if err := store(short); err != nil && ctx.Err() == nil {
				hold = append(hold, notify.Event{Kind: notify.StoreFailure, Why: config.Redact(err.Error())})
			}
			cancel()
		}
		for _, b := range upstreams() {
			if b.Saturated && b.Rate <= b.MinSum {
				hold = append(hold, notify.Event{Kind: notify.AdaptiveFloor, Upstream: b.Name, Rate: b.Rate,
					Why: b.Why})
			}
		}
		for _, e := range c.Update(time.Now(), hold) {
			tell(e)
		}
	})
	return nil
}

// eventOf converts a change of the page into the event for webhooks. The kinds of changes are the kinds of GET
// /v1/events.
func eventOf(c *admin.Change) notify.Event {
	e := notify.Event{
		At: c.At, Key: c.Key, Rule: c.Rule, Cost: c.Cost, Rate: c.Rate, Clients: c.Clients, Client: c.Client,
		ClientShare: c.ClientShare,
	}
	switch c.Kind {
	case "became_hot":
		e.Kind = notify.Hot
	case "cooled":
		e.Kind = notify.Cold
	case "became_loop":
		e.Kind = notify.Loop
	case "ceased_loop":
		e.Kind, e.Ended = notify.Loop, true
	default:
		e.Kind, e.Author, e.Change = notify.Override, c.Author, overrideChange(c)
		if c.Override != nil {
			e.Why = c.Override.Reason
		}
	}
	return e
}

func overrideChange(c *admin.Change) string {
	did := map[string]string{
		"override_put": "set", "override_deleted": "removed", "override_undone": "undone",
		"override_began": "began by its schedule", "override_ended": "ended by its schedule",
	}[c.Kind]
	if c.Override == nil || c.Kind == "override_deleted" {
		return did
	}
	what := string(c.Override.Action)
	if c.Override.Action == rules.ActionLimit {
		what = strconv.FormatFloat(c.Override.Rate, 'f', -1, 64) + "/s"
	}
	if c.Override.InShadow() {
		what = "in shadow: " + what
	}
	if until := c.Override.Until; !until.IsZero() {
		what += " until " + until.UTC().Format(time.RFC3339)
	}
	return did + " (" + what + ")"
}

type webhooks struct{ n *notify.Notifier }

func (w webhooks) Webhooks() (list []admin.Webhook) {
	all := w.n.Stats().Webhooks
	for _, name := range slices.Sorted(maps.Keys(all)) {
		st := all[name]
		one := admin.Webhook{
			Name: name, Format: string(st.Format), Sent: st.Sent, Failed: st.Failed, Dropped: st.Dropped,
			Queued: st.Queued, Error: st.Err, At: st.At, LostAt: st.LostAt, Losing: losesEvents(st, time.Now()),
		}
		for _, kind := range st.Events {
			one.Events = append(one.Events, string(kind))
		}
		list = append(list, one)
	}
	return list
}

func (w webhooks) Test(ctx context.Context, name, author string) (list []admin.WebhookTest) {
	for _, r := range w.n.Test(ctx, name, author, time.Now()) {
		t := admin.WebhookTest{Name: r.Name, OK: r.Err == nil, Status: r.Status,
			TookMS: float64(r.Took.Microseconds()) / 1000}
		if r.Err != nil {
			t.Error = r.Err.Error()
		}
		list = append(list, t)
	}
	return list
}

// lossShown is the time for which a webhook that lost events counts as failing.
const lossShown = time.Hour

func losesEvents(w notify.WebhookStats, now time.Time) bool {
	return !w.LostAt.IsZero() && now.Sub(w.LostAt) < lossShown
}

// webhookStatus returns one line for all webhooks, because there may be many and a phone shows every line.
func webhookStatus(all map[string]notify.WebhookStats, now time.Time) []admin.Status {
	var failing, losing []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if w := all[name]; w.Failing {
			failing = append(failing, name)
		} else if losesEvents(w, now) {
			losing = append(losing, name)
		}
	}
	st := admin.Status{Name: "webhooks", Value: fmt.Sprintf("%d of %d work", len(all)-len(failing)-len(losing), len(all))}
	if len(failing) > 0 {
		st.Value += "; failing: " + firstOf(failing)
	}
	if len(losing) > 0 {
		st.Value += "; lost events: " + firstOf(losing)
	}
	st.OK = len(failing)+len(losing) == 0
	return []admin.Status{st}
}

// firstOf returns the first name of a list, and the number of the others.
func firstOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

const trimHistory = "@every 10m"

func checkHistory(cfg config.History) error {
	if cfg.Keep < 0 || cfg.Keep > 0 && (cfg.MaxBytes < 1<<20 || cfg.Keys < 1) {
		return config.Usage("--history.keep %v, --history.max_bytes %d, --history.keys %d must be at least 0s, 1048576, 1",
			cfg.Keep, cfg.MaxBytes, cfg.Keys)
	}
	return nil
}

// KeepHistory keeps a history of the admin page's data, if the settings ask for one, and adds the history to the page,
// the metrics and the stages of a program. The files are in a state directory.
func KeepHistory(cfg config.History, dir string, heaviest func(int) []hottype.HotKey,
	adm *admin.Config, parts *[]metrics.Collector, log *slog.Logger) (add func(*lifecycle.Stages), err error) {
	adm.HistoryKeys, adm.Heaviest = cfg.Keys, heaviest
	if err := checkHistory(cfg); err != nil || cfg.Keep == 0 {
		return func(*lifecycle.Stages) {}, err
	}
	store := historystore.New(historystore.Config{Dir: dir, Keep: cfg.Keep, MaxBytes: cfg.MaxBytes, Keys: cfg.Keys,
		Log: log})
	adm.History = store
	*parts = append(*parts, metrics.Of(store.Stats))
	addStatus(adm, func() []admin.Status {
		return []admin.Status{historyStatus(store.Failing(), store.Stats().SetAside > 0)}
	})
	return func(s *lifecycle.Stages) {
		s.Add(lifecycle.Sinks, "history", store.Run)
		s.Add(lifecycle.Sinks, "trim history", func(ctx context.Context) error {
			return OnSchedule(ctx, trimHistory, log, store.Trim)
		})
	}, nil
}

// historyStatus returns a line of the page. The history's own view shows the same facts, except that it is written.
func historyStatus(err error, setAside bool) admin.Status {
	switch {
	case err != nil:
		return admin.Status{Name: "history", Value: "not written: " + err.Error()}
	case setAside:
		return admin.Status{Name: "history", OK: true, Value: "written, but a file was damaged; its undamaged part is kept, " +
			"and the file is in history in state.dir, with the end .damaged"}
	}
	return admin.Status{Name: "history", Value: "written", OK: true}
}
