package admin_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/test/internal/program"
)

// axeCore audits the views beside our own audit, by the rules that most auditors use.
const axeCore = "axe-core@4.14.1"

// axeRun returns the violations that axe-core calls serious or critical, each with the elements that have it.
const axeRun = `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations
	.filter((v) => ["serious", "critical"].includes(v.impact))
	.map((v) => v.impact + " " + v.id + ": " + v.help + ": " + v.nodes.slice(0, 5).map((n) => n.html.slice(0, 160)).join(" | ")))`

// TestViews_PassAxeAudit shows each view in both themes, and on a phone, to axe-core, which npm brings.
func TestViews_PassAxeAudit(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("HOTPARAM_REQUIRE_SERVERS") == "1" {
			t.Fatalf("%v: apt-get install npm", err)
		}
		t.Skip("no npm in PATH: axe-core does not look at the page")
	}
	dir := program.Fetch(t, axeCore, func(dir string) *exec.Cmd {
		return exec.Command("npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", axeCore)
	})
	axe, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	srv := serve(t, cooling(config(t)))
	for view, ready := range everyView {
		run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL+view),
			until(fmt.Sprintf("document.querySelector(%q)", ready)))
		if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](string(axe)+";true")); err != nil {
			t.Fatal(err)
		}
		for _, look := range looks {
			run(t, ctx, look.set())
			found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](axeRun, chromedp.EvalAwaitPromise))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				t.Errorf("%s, %v: %s", view, look, f)
			}
		}
	}
}
