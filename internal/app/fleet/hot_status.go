package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
)

// noInputTTL returns the setting in the form of the packages that use it, which take 0 for their default.
func noInputTTL(cfg config.Redis) time.Duration {
	if cfg.HotTTLNoInput == 0 {
		return -1
	}
	return cfg.HotTTLNoInput
}

// hotStatus returns the line of the dashboard and of /readyz?verbose about the hot set: its age, and the number of
// aggregators that are stale or have no input.
func hotStatus(m *hotset.Replica, now time.Time) admin.Status {
	age, known := m.Age(now)
	st := m.Stats(now)
	bad := func(format string, args ...any) admin.Status {
		return admin.Status{Name: "hot set", Value: fmt.Sprintf(format, args...)}
	}
	switch {
	case !known:
		return bad("no aggregator heard of yet: no key becomes hot")
	case st.Publishers+st.StalePublishers == 0:
		return bad("judged %.0f s ago: no aggregator is heard, no key becomes hot", age.Seconds())
	case st.StalePublishers > 0:
		return bad("judged %.1f s ago; %d of %d aggregators stale: %d hot keys kept", age.Seconds(),
			st.StalePublishers, st.Publishers+st.StalePublishers, st.KeysKept)
	case st.NoInputPublishers > 0:
		return bad("judged %.1f s ago; %d of %d aggregators have no input: hot keys kept", age.Seconds(),
			st.NoInputPublishers, st.Publishers)
	}
	return admin.Status{Name: "hot set", Value: fmt.Sprintf("judged %.1f s ago", age.Seconds()), OK: true}
}

// groupStatus returns the line of the dashboard about the consumer group.
func groupStatus(check func(context.Context) error) admin.Status {
	if err := check(context.Background()); err != nil {
		return admin.Status{Name: "kafka group", Value: err.Error()}
	}
	return admin.Status{Name: "kafka group", Value: "of this namespace alone", OK: true}
}

func roleStatus(feed *rediscontrol.Feed, standby bool) admin.Status {
	switch {
	case feed.Stats().Publishing:
		return admin.Status{Name: "role", Value: "publishes", OK: true}
	case standby:
		return admin.Status{Name: "role", Value: "stands by", OK: true}
	}
	return admin.Status{Name: "role", Value: "publishes nothing yet"}
}

// instanceName returns a name that also tells processes apart that share a publisher's name.
func instanceName(cfg config.Aggregator) string {
	return publisherName(cfg) + strings.TrimPrefix(lifecycle.InstanceName(""), lifecycle.HostName())
}
