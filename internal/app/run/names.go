package run

import (
	"fmt"
	"os"
	"time"
)

// instanceName is the configured name, or one that no other process has and
// that a person can trace: host, process, start.
func instanceName(configured string) string {
	if configured != "" {
		return configured
	}
	return fmt.Sprintf("%s-%d-%d", hostName(), os.Getpid(), time.Now().Unix())
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "unknown-host"
	}
	return host
}
