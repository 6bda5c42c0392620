package program

import (
	"context"
	"log/slog"
	"net"
	"os"

	"github.com/hotparam/pipeline/internal/lifecycle"
)

// addNotify tells a service manager that waits for it (systemd, Type=notify) when the
// program is ready and when it begins to stop. Programs open their listeners before
// their parts run, so clients can connect from then on.
func addNotify(s *lifecycle.Stages, log *slog.Logger) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	s.Add(lifecycle.Sources, "service manager", func(ctx context.Context) error {
		tellManager(ctx, socket, "READY=1", log)
		<-ctx.Done()
		tellManager(context.WithoutCancel(ctx), socket, "STOPPING=1", log)
		return nil
	})
}

// tellManager sends one state, see sd_notify(3). A failure is only logged: what the manager
// makes of the silence is its own matter.
func tellManager(ctx context.Context, socket, state string, log *slog.Logger) {
	conn, err := new(net.Dialer).DialContext(ctx, "unixgram", socket)
	if err == nil {
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		log.Warn("the service manager was not notified", "state", state, "err", err)
	}
}
