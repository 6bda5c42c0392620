package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// The file of docs/getting-started.md allows ten logins of each address and for each account, over two sidecars with
// one Redis: another account passes, the same account from another address does not, and the log of denials names rule
// and window. Gateways are tested in test/gateways.
func TestGettingStarted_LimitsLoginsByAddressAndAccount(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/getting-started.md")
	if err != nil {
		t.Fatal(err)
	}
	of := regexp.MustCompile("(?s)\n## 7[^\n]*\n\n```yaml\n(.*?)```").FindSubmatch(page)
	if of == nil {
		t.Fatal("docs/getting-started.md has no rules for logins")
	}
	// No window of a day ends within the test.
	config := write(t, "hotparam.yaml", strings.ReplaceAll(string(of[1]), "window: 1m", "window: 24h"))
	redis, dir := redistest.Start(t), t.TempDir()
	var decide, logs [2]string
	for i := range decide {
		admin := freeport.Addr(t)
		decide[i], logs[i] = freeport.Addr(t), filepath.Join(dir, fmt.Sprint("denials", i))
		launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis.Addr(), "--sidecar.count", "none",
			"--decide.listen", decide[i], "--admin.listen", admin, "--gate.budget", budget, "--denials.log", logs[i])
		ready(t, admin)
	}
	n := 0
	login := func(address int, account string, want string) {
		t.Helper()
		n++
		body := fmt.Sprintf(`{"uri":"/login","ip":"192.0.2.%d","headers":{"X-Account":%q}}`, address, account)
		status, got := do(t, http.MethodPost, "http://"+decide[n%2]+"/v1/decide", body, nil)
		if status != http.StatusOK || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s, want %s", body, status, got, want)
		}
	}
	const passes, byAccount, byAddress = `"allowed":true`, `"allowed":false,"reason":"client_sliding","rule":"login"`,
		`"allowed":false,"reason":"client_fixed","rule":"login"`
	for i := range 10 {
		login(1+i, "anna", passes)
	}
	login(11, "anna", byAccount)
	login(11, "anna", byAccount) // at the other sidecar
	login(11, "bert", passes)
	for i := range 10 {
		login(12, fmt.Sprint("carl", i), passes)
	}
	login(12, "dora", byAddress)
	login(12, "dora", byAddress)
	login(13, "dora", passes)
	for _, log := range logs {
		for _, want := range []string{
			`"client":"192.0.2.11","shadow":false,"reason":"client_sliding","rule":"login","limit":10,`,
			`"client":"192.0.2.12","shadow":false,"reason":"client_fixed","rule":"login","limit":10,`,
		} {
			program.Await(t, time.Minute, "a line of the denial", func() bool { return linesWith(log, want) == 1 })
		}
	}
}
