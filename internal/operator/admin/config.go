package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/access"
)

// OverrideStore keeps the live overrides and who changed them. Package filestore
// has the one of a single machine, package redisfeed the shared one. It may be
// used by many goroutines.
type OverrideStore interface {
	// List returns every override, expired ones may be among them.
	List(ctx context.Context) ([]rules.Override, error)
	// Put stores o under its ID, in place of what was there, and returns it as
	// stored.
	Put(ctx context.Context, o rules.Override) (rules.Override, error)
	// Delete removes an override; rules.ErrNoOverride when there is none.
	Delete(ctx context.Context, id, author string) error
	// Audit returns up to limit changes, newest first.
	Audit(ctx context.Context, limit int) ([]rules.Change, error)
	// Revision is that of the newest change, 0 where there never was one.
	Revision(ctx context.Context) (int64, error)
}

// Status is one thing that the dashboard's status line shows, such as the age
// of the replica or the state of a breaker.
type Status struct {
	Name  string `json:"name"`  // "mirror"
	Value string `json:"value"` // "0.4 s old"
	OK    bool   `json:"ok"`
}

// History keeps what the page tells for longer than the process lives. Package historystore has one.
// Second and Event must not block; all may be called by many goroutines.
type History interface {
	Second(*history.Second)
	Event(history.Event)
	// Read answers a query about what was.
	Read(ctx context.Context, q history.Query) (*history.Answer, error)
	// Heatmap answers when the heaviest keys of a time were asked for.
	Heatmap(ctx context.Context, q history.HeatmapQuery) (*history.Heatmap, error)
	// Purge removes what is kept of a key, and gives how many rows there were.
	Purge(ctx context.Context, key hottype.Key) (rows int64, err error)
	// Failing says why nothing is kept at the moment; nil where it is.
	Failing() error
}

// Config says what a [Server] shows and who may see it. Only Hot and Rules are
// needed; what is nil is shown as absent.
type Config struct {
	Namespace string
	Version   string

	// Hot returns what is hot now, heaviest first, by the aggregator or by the
	// mirror. Called once a second and for each question about a key.
	Hot func() []hottype.Hot
	// Loops returns the keys that would be hot were it not for one or a few
	// clients, heaviest first; nil: none are shown.
	Loops func() []hottype.Hot
	// Rules returns the rules that hold now.
	Rules func() *rules.Set
	// Reports returns the counters of every limiter. Rates are differences per
	// instance between two reports. Nil: rates are not shown.
	Reports func(context.Context) ([]hottype.Report, error)
	// Overrides; nil: overrides are those of the rules file, and unchangeable.
	Overrides OverrideStore
	// Central is the store that the program has its rules from; nil: they are from its file.
	Central RuleStore
	// History; nil: nothing is kept of what was.
	History History
	// HistoryKeys are how many keys of each kind a second tells the history; 0 means 100.
	HistoryKeys int
	// Heaviest returns the keys with the greatest rates, hot or not; nil: history and page know only
	// what was hot. Called some times a minute.
	Heaviest func(n int) []hottype.Hot
	// Command has every limiter carry out a command, and says how many answers a purge has removed
	// in this process; nil: no limiter hears of this program.
	Command func(context.Context, hottype.Command) (purged int, err error)
	// Upstreams are those that adaptive limits follow, with what they bear; nil: none.
	Upstreams func() []hottype.UpstreamBound
	// OnChange is called with every change that is shown, in order and never twice at once: it must not block.
	// Nil: nobody else is told.
	OnChange func(Change)
	// Notify are the webhooks that are told what happens; nil: none.
	Notify Notifier
	// Pushed says that the program hands changes of what is hot to Publish. Without
	// it the sampler finds them by comparing Hot with a second ago.
	Pushed bool

	// Ready are the checks of /readyz by name. Each gets two seconds.
	Ready map[string]func(context.Context) error
	// Status, called once a second, fills the dashboard's status line.
	Status func() []Status
	// Metrics answers GET /metrics; nil: nothing is there.
	Metrics http.Handler

	// Access is who may call, and may do what. None: everybody may do everything,
	// which is safe only on loopback; see access.CheckListen.
	Access access.Credentials

	// MaxStreams bounds the open event streams; 0 means 64.
	MaxStreams int
	// Log; nil discards.
	Log *slog.Logger
	// Now; nil means time.Now.
	Now func() time.Time
}

// defaultMaxStreams is how many dashboards may be open at once.
const defaultMaxStreams = 64

func (c Config) withDefaults() Config {
	if c.MaxStreams == 0 {
		c.MaxStreams = defaultMaxStreams
	}
	if c.HistoryKeys <= 0 {
		c.HistoryKeys = 100
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = http.NotFoundHandler()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnChange == nil {
		c.OnChange = func(Change) {}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Hot == nil:
		return errors.New("admin: Config.Hot is nil; hand over the aggregator's or the replica's hot list")
	case c.Rules == nil:
		return errors.New("admin: Config.Rules is nil")
	case c.MaxStreams < 0:
		return fmt.Errorf("admin: Config.MaxStreams %d is negative", c.MaxStreams)
	}
	return access.CheckToken("admin.token", c.Access.Token)
}
