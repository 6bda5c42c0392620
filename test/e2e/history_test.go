package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// Hot keys and the changes of operators are in the history after a restart, also if the program finds files that were
// cut in half. A program that cannot write reports it, and continues to find and to limit.
func TestHistory_OutlivesTheProgram(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	addr, admin, dir := freeport.Addr(t), freeport.Addr(t), t.TempDir()
	const rules = "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10, window: 1s}, limit: {rate: 5}}]\n"
	args := []string{"serve", "--config", write(t, "hotparam.yaml", rules), "--upstream", upstream.URL, "--listen",
		addr,
		"--admin.listen", admin, "--state.dir", dir}
	read := func(query string) (a history.Answer) {
		t.Helper()
		status, body := get(t, "http://"+admin+"/v1/history?"+query)
		if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s %v", status, body, err)
		}
		return a
	}
	// viral requests an id until it is hot and denied, and until its beginning is in the history if it can be kept.
	viral := func(id int, kept bool) {
		t.Helper()
		denied := false
		program.Await(t, time.Minute, "the topic to be hot", func() bool {
			for range 20 {
				status, _ := get(t, fmt.Sprintf("http://%s/topic?id=%d", addr, id))
				denied = denied || status == http.StatusTooManyRequests
			}
			return denied && (!kept || len(read(fmt.Sprintf("key=topic?id=%d", id)).Spans) == 1)
		})
	}
	p := launch(t, "serve", args[1:]...) // the program of one process writes what hotparam serve reads
	ready(t, admin)
	viral(1, true)
	program.Await(t, time.Minute, "a second with denials to be seen", func() bool {
		get(t, "http://"+addr+"/topic?id=1")
		_, body := get(t, "http://"+admin+"/v1/keys/topic%3Fid=1")
		var seen struct {
			Denied float64 `json:"denied_per_second"`
		}
		return json.Unmarshal([]byte(body), &seen) == nil && seen.Denied > 0
	})
	do(t, http.MethodPut, "http://"+admin+"/v1/overrides/one", `{"key":"topic?id=1","rate":1000,"author":"ann"}`,
		http.Header{"Content-Type": {"application/json"}})
	if code := p.Stop(); code != 0 {
		t.Fatalf("exit %d", code)
	}
	p = launch(t, "hotparam", args...)
	ready(t, admin)
	a := read("key=topic?id=1")
	kinds := map[string]int{}
	for _, e := range a.Events {
		kinds[e.Kind]++
	}
	if len(a.Keys) == 0 || a.Keys[0].State != history.Hot || a.Keys[0].Denied == 0 || len(a.Spans) != 1 ||
		a.Spans[0].Until.IsZero() ||
		kinds["became_hot"] != 1 || kinds["override_put"] != 1 {
		t.Errorf("after a restart: %+v", a)
	}
	p.Stop()

	files, err := filepath.Glob(filepath.Join(dir, "history", "*"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p = launch(t, "hotparam", args...)
	ready(t, admin)
	viral(2, true)
	program.Await(t, time.Minute, "the log to say it",
		func() bool { return strings.Contains(p.Said(), "was not written to its end") })
	p.Stop()

	// A file replaces the directory, so that nothing can be opened or written.
	if err := os.RemoveAll(filepath.Join(dir, "history")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "history"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	launch(t, "hotparam", args...)
	ready(t, admin)
	viral(3, false)
	if status, body := get(t, "http://"+admin+"/v1/history"); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "remedy") {
		t.Errorf("%d %s", status, body)
	}
	if _, body := get(t, "http://"+admin+"/readyz?verbose"); !strings.Contains(body, "not written: ") {
		t.Errorf("the status line does not say it: %s", body)
	}
	if _, text := get(t, "http://"+admin+"/metrics"); !strings.Contains(text, "hotparam_history_failing 1") {
		t.Error("no metric says that the history is not written")
	}
}
