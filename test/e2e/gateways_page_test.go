package e2e

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// The commands with which docs/gateways.md begins find a hot key and limit it, for one client as curl is one. The
// gateway itself is tested in test/gateways.
func TestGatewaysPage_CommandsLimitHotKey(t *testing.T) {
	page, err := os.ReadFile("../../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	_, start, _ := strings.Cut(string(page), "\n## Start\n")
	start, _, _ = strings.Cut(start, "\n## ")
	blocks := regexp.MustCompile("(?s)```(yaml|sh)\n(.*?)```").FindAllStringSubmatch(start, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks in the first section, want a file, one process, and several", len(blocks))
	}
	config := write(t, "hotparam.yaml", blocks[0][2])
	for _, commands := range []string{blocks[1][2], blocks[2][2]} {
		t.Run(strings.Fields(commands)[1], func(t *testing.T) {
			check := freeport.Addr(t)
			addresses := strings.NewReplacer("hotparam.yaml", config, "127.0.0.1:8185", check,
				"127.0.0.1:6379", redistest.Start(t).Addr(), "127.0.0.1:8127", freeport.Addr(t))
			for line := range strings.Lines(strings.ReplaceAll(commands, "\\\n", "")) {
				command, service := strings.CutSuffix(addresses.Replace(line), "&\n")
				if args := strings.Fields(command); service && args[0] == "hotparam" {
					admin := freeport.Addr(t)
					launch(t, "hotparam", append(args[1:], "--admin.listen", admin, "--state.dir", t.TempDir())...)
					ready(t, admin)
				}
			}
			program.Await(t, time.Minute, "a refusal of the hot key", func() bool {
				refused := false
				for range 20 {
					status, _ := do(t, http.MethodGet, "http://"+check+"/check", "", http.Header{
						"X-Original-Method": {"GET"}, "X-Original-Uri": {"/topic?id=42"}, "X-Original-Host": {"a"},
						"X-Real-Ip": {"127.0.0.1"}})
					refused = refused || status == http.StatusForbidden
				}
				return refused
			})
		})
	}
}
