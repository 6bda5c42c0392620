package program

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/storage/historystore"
)

// trimHistory is the schedule on which old history is removed.
const trimHistory = "@every 10m"

// keepHistory keeps a history of what an admin page tells, if one is to be kept: it adds that to the
// page, the metrics and the stages of a program.
func keepHistory(
	cfg config.History, dir string, heaviest func(int) []hottype.HotKey, adm *admin.Config, parts *[]metrics.Collector,
	log *slog.Logger,
) (add func(*lifecycle.Stages), err error) {
	adm.HistoryKeys, adm.Heaviest = cfg.Keys, heaviest
	switch {
	case cfg.Keep == 0:
		return func(*lifecycle.Stages) {}, nil
	case cfg.Keep < 0 || cfg.MaxBytes < 1<<20 || cfg.Keys < 1:
		return nil,
			fmt.Errorf("%w: --history.keep %v, --history.max_bytes %d, --history.keys %d: want at least 0s, 1048576, 1",
				config.ErrUsage, cfg.Keep, cfg.MaxBytes, cfg.Keys)
	}
	store := historystore.New(historystore.Config{Dir: dir, Keep: cfg.Keep, MaxBytes: cfg.MaxBytes, Keys: cfg.Keys,
		Log: log})
	adm.History = store
	*parts = append(*parts, metrics.Of(store.Stats))
	before := adm.Status
	adm.Status = func() (list []admin.Status) {
		if before != nil {
			list = before()
		}
		return append(list, historyStatus(store.Failing(), store.Stats().SetAside > 0))
	}
	return func(s *lifecycle.Stages) {
		s.Add(lifecycle.Sinks, "history", store.Run)
		s.Add(lifecycle.Sinks, "trim history", func(ctx context.Context) error {
			return onSchedule(ctx, trimHistory, log, store.Trim)
		})
	}, nil
}

// historyStatus is a line of the page; the history's own view tells all but "written" too.
func historyStatus(err error, setAside bool) admin.Status {
	switch {
	case err != nil:
		return admin.Status{Name: "history", Value: "not written: " + err.Error()}
	case setAside:
		return admin.Status{Name: "history", OK: true, Value: "begun anew, because its file was damaged; " +
			"what was before is in history.sqlite.damaged in state.dir"}
	}
	return admin.Status{Name: "history", Value: "written", OK: true}
}
