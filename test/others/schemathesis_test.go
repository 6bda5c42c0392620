package others

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const schemathesis = "schemathesis==4.32.5"

// adminRules has all that the admin API shows.
const adminRules = `
rules:
  - {name: topic, match: {path: "/topic"}, params: [id], hot: {rate: 200}, limit: {rate: 100, burst: 200}}
  - {name: login, match: {path: "/login"}, per_client: {fixed: {limit: 10, window: 1m}}}
overrides:
  - {id: fixed, key: "topic?id=7", action: exempt}
`

// The admin API does what its OpenAPI document states, for requests that the document allows and for others. A case is
// an operation; a failure is one of its kinds.
func TestAdminAPI_PassesSchemathesis(t *testing.T) {
	s := begin(t, "schemathesis", schemathesis)
	seed := strconv.FormatUint(s.seeded().Uint64(), 10)
	bin := python(t, schemathesis)
	_, admin := serveFor(t, adminRules, "http://127.0.0.1:1")
	examples, report := "20", filepath.Join(t.TempDir(), "report.json")
	if nightly() {
		examples = "200"
	}
	// A stream of events has no end.
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "python"), "-m", "schemathesis.cli", "run",
		"http://"+admin+"/openapi.json",
		"--exclude-path", "/v1/events", "--max-examples", examples, "--seed", seed, "--continue-on-failure",
		"--request-timeout", "60", "--report", "json", "--report-json-path", report, "--no-color")
	cmd.Dir = t.TempDir() // it keeps a database of examples
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	data, err := os.ReadFile(report)
	var result struct {
		Operations map[string]any `json:"operations"`
		Failures   []struct {
			Code       string   `json:"code"`
			Title      string   `json:"title"`
			Operations []string `json:"operations"`
		} `json:"failures"`
		Errors []any          `json:"errors"`
		Rates  map[string]any `json:"valid_rates"`
		Tests  struct {
			Generated int `json:"generated"`
		} `json:"test_cases"`
	}
	if err == nil {
		err = json.Unmarshal(data, &result)
	}
	if err != nil || len(result.Errors) > 0 || len(result.Rates) < 50 {
		t.Fatalf("%v: %d operations, errors %v\n%s", err, len(result.Rates), result.Errors, out)
	}
	failed := map[string]bool{}
	for _, f := range result.Failures {
		for _, operation := range f.Operations {
			failed[operation] = true
			method, _, _ := strings.Cut(operation, " ")
			s.record(operation+": "+f.Code, errors.New(f.Title), "any "+method+": "+f.Code)
		}
	}
	for operation := range result.Rates {
		if !failed[operation] {
			s.record(operation, nil)
		}
	}
	t.Logf("%d requests to %d operations", result.Tests.Generated, len(result.Rates))
	if t.Failed() {
		t.Logf("%s", out)
	}
}
