package admin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// picturesAfter is how long the demo has run before its pictures are taken: the chart of its requests is full then, and
// the last of the three waves has ended.
const picturesAfter = 2*time.Minute + 30*time.Second

// colleagues are the changes of two operators of the demo.
var colleagues = []string{
	`{"key": "topic?id=4242", "rate": 60, "burst": 60, "mode": "shadow", "for": "4h", "author": "ann",
		"reason": "would 60/s be enough?"}`,
	`{"cidr": "192.0.2.0/24", "rate": 4, "for": "2h", "author": "ann", "reason": "crawlers without a contact"}`,
	`{"key": "topic?id=17", "action": "exempt", "for": "45m", "author": "ben", "reason": "the live ticker"}`,
}

// pictures are the views of the documents in the order in which they are taken. A view is taken once it is calm (no
// chip is red) and its own condition holds.
var pictures = []struct{ name, address, until string }{
	{"now", "/", `!document.querySelector("#loops").hidden && timesThreshold >= 4
		&& document.querySelector("#hot-table tbody .limit").textContent.includes("100/s, burst 100")`},
	{"key", "/key?key=topic%3Fid%3D4242", `+document.querySelector("#key-rate").textContent > 700
		&& document.querySelector("#key-prefixes li")
		&& document.querySelector("#key-limits").textContent.includes("100/s, burst 100")`},
	{"client", "/client?client=198.51.100.77", `document.querySelector("#trace tbody .denying")`},
	{"history", "/historySINCE", `document.querySelector("#history-keys").textContent.includes("topic?id=4242")`},
	{"rules", "/rules", `document.querySelector("#running tbody tr")`},
	{"overrides", "/overrides", `[...document.querySelectorAll("#overrides .would")]
		.some((n) => n.textContent.includes("would have denied"))`},
	{"audit", "/audit", `document.querySelector("#audit tbody tr") && document.querySelector("#parts li")`},
}

// TestPictures_AreTakenFromDemo takes the pictures of the documents from the demo, as it is after some minutes in which
// two operators have worked with it. It runs for make pictures alone and checks nothing: view each picture before it is
// committed.
func TestPictures_AreTakenFromDemo(t *testing.T) {
	dir := os.Getenv("HOTPARAM_PICTURES")
	if dir == "" {
		t.Skip("HOTPARAM_PICTURES names no directory for the pictures")
	}
	program.Ours(t)
	ctx := browser(t)
	admin := freeport.Addr(t)
	began := time.Now()
	program.Launch(t, "demo", "--duration", "0s", "--admin.listen", admin)
	(&site{admin: admin}).ready(t)
	base := "http://" + admin
	open := chromedp.Steps(chromedp.EmulateViewport(1280, 900), scheme("light"))
	run(t, ctx, open, reload(base), says("#hot-table tbody tr", "topic?id=4242"))
	for _, body := range colleagues {
		putOverride(t, base, body)
	}
	program.Await(t, 2*picturesAfter, "a demo of that age", func() bool { return time.Since(began) > picturesAfter })
	for _, p := range pictures {
		run(t, ctx, open, reload(base+strings.Replace(p.address, "SINCE", lately(began), 1)))
		calm(t, ctx, p.until)
		for _, look := range []string{"light", "dark"} {
			run(t, ctx, scheme(look))
			png, err := chromedp.Run(ctx, picture(p.name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, p.name+"-"+look+".png"), png, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// lately are the parameters of the history since the demo began.
func lately(began time.Time) string {
	return fmt.Sprintf("?from=%d&to=%d", began.Unix(), time.Now().Unix())
}

// reload opens an address, also if the page is there already.
func reload(address string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
}

// calm waits, longer than the demo takes to repeat itself, until a condition holds while no chip is red.
func calm(t *testing.T, ctx context.Context, condition string) {
	t.Helper()
	script := fmt.Sprintf(`(() => {
		const timesThreshold = parseFloat(document.querySelector("#hot-table tbody .rate small")?.textContent ?? "");
		return Boolean(document.querySelector("#status .good") && !document.querySelector("#status .poor") && (%s));
	})()`, condition)
	program.Await(t, 5*time.Minute, condition, func() bool {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script))
		return err == nil && holds
	})
}

// picture takes a picture of the page. The first picture ends below the loops, because it stands in the README, and the
// picture of the history at the end of the window.
func picture(name string) chromedp.Action[[]byte] {
	switch name {
	case "now":
	case "history":
		return chromedp.CaptureScreenshot()
	default:
		return chromedp.FullScreenshot(100)
	}
	return func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		bottom, err := chromedp.Evaluate[float64](
			`document.querySelector("#loops").getBoundingClientRect().bottom + scrollY + 14`)(ctx, t)
		if err != nil {
			return nil, err
		}
		if _, err := chromedp.EmulateViewport(1280, int64(bottom))(ctx, t); err != nil {
			return nil, err
		}
		return chromedp.CaptureScreenshot()(ctx, t)
	}
}
