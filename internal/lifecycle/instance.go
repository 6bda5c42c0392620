package lifecycle

import (
	"fmt"
	"os"
	"time"
)

// InstanceName is the configured name of this process, or one that no other process
// has and that a person can trace: host, process, start.
func InstanceName(configured string) string {
	if configured != "" {
		return configured
	}
	return fmt.Sprintf("%s-%d-%d", HostName(), os.Getpid(), time.Now().Unix())
}

// HostName is the name of this machine, "unknown-host" where it has none.
func HostName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "unknown-host"
	}
	return host
}
