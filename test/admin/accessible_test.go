package admin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin"
)

// audit runs in the page and returns the faults that hinder an operator without a mouse, with a screen reader or with
// weak eyes: texts whose contrast with their background is below 4.5 (WCAG 1.4.3; 3 for large ones), controls without a
// name (4.1.2), cells of tables without headings (1.3.1), duplicate ids, and headings that skip a level.
const audit = `(() => {
	const found = [];
	const seen = (n) => n.checkVisibility({ opacityProperty: true, visibilityProperty: true }) &&
		n.getClientRects().length > 0 && !n.closest(".unseen");
	const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
	const rgba = (colour) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = colour;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const behind = (n) => {
		for (; n; n = n.parentElement) {
			const c = rgba(getComputedStyle(n).backgroundColor);
			if (c[3] === 255) return c;
		}
		return [255, 255, 255, 255];
	};
	const light = (c) => {
		const [r, g, b] = c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const n = walk.currentNode.parentElement;
		if (!walk.currentNode.textContent.trim() || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(n.tagName) ||
			!seen(n)) continue;
		if (n.matches("input[type=radio] + span")) continue;
		const style = getComputedStyle(n);
		const large = parseFloat(style.fontSize) >= 24 ||
			(parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
		const c = contrast(rgba(style.color), behind(n));
		if (c < (large ? 3 : 4.5)) found.push("contrast " + c.toFixed(2) + ": " + n.tagName + "." + n.className + " " + walk.currentNode.textContent.trim().slice(0, 40));
	}
	const name = (n) => n.getAttribute("aria-label") || (n.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("")
		|| [...(n.labels ?? [])].map((l) => l.textContent).join("") || n.textContent || n.title || n.alt;
	for (const n of document.querySelectorAll("a[href], button, input, select, textarea, canvas, meter, table, [role]:not([role=status]), [tabindex='0'], section, nav")) {
		if (seen(n) && !name(n)?.trim()) found.push("no name: " + n.outerHTML.slice(0, 120));
	}
	for (const img of document.images) if (!img.hasAttribute("alt")) found.push("no alt: " + img.src);
	for (const td of document.querySelectorAll("tbody tr"))
		if (seen(td) && !td.querySelector("th[scope=row]")) found.push("a row without a heading");
	for (const t of document.querySelectorAll("table")) {
		const heads = t.tHead.rows[0].cells.length;
		for (const r of t.tBodies[0].rows)
			if (r.cells.length !== heads)
				found.push("a row of " + r.cells.length + " cells below " + heads + " headings");
	}
	const ids = [...document.querySelectorAll("[id]")].map((n) => n.id);
	for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push("twice: #" + id);
	let level = 0;
	for (const h of document.querySelectorAll("h1, h2, h3, h4")) {
		if (!h.checkVisibility()) continue; // a heading may be for screen readers alone
		if (Number(h.tagName[1]) > level + 1) found.push("a heading skips a level: " + h.textContent);
		level = Number(h.tagName[1]);
	}
	for (const ref of document.querySelectorAll("[aria-describedby], [aria-labelledby]")) {
		for (const id of [ref.getAttribute("aria-describedby"), ref.getAttribute("aria-labelledby")]
			.join(" ").split(" ").filter(Boolean)) {
			if (id !== "null" && !document.getElementById(id)) found.push("leads nowhere: " + id);
		}
	}
	return found;
})()`

// everyView maps the address of each view to a selector that matches once the view is drawn.
var everyView = map[string]string{
	"/": "#events .cooled", "/key/topic%3Fid=42": "#key-limits li", "/history": "#history-keys li",
	"/overrides": "#overrides tbody tr", "/audit": "#parts li", "/rules": "#versions tbody tr",
	"/client/192.0.2.77": "#trace tbody tr",
}

// looks are both themes, on a desk and on a phone.
var looks = []look{{"light", 1280}, {"dark", 1280}, {"light", 380}, {"dark", 380}}

type look struct {
	scheme string
	width  int64
}

func (l look) set() chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.EmulateViewport(l.width, 900), scheme(l.scheme))
}

// cooling has one key cool down soon, so that the events have that too.
func cooling(cfg admin.Config) admin.Config {
	hot, begun := cfg.Hot, time.Now()
	cfg.Hot = func() []hottype.HotKey {
		list := hot()
		if time.Since(begun) < 1500*time.Millisecond {
			list = append(list, hotKey("topic?id=8", "topic", 201, begun))
		}
		return list
	}
	return cfg
}

// TestViews_AreAccessibleInBothThemes audits each view in both themes, also on a phone.
func TestViews_AreAccessibleInBothThemes(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	srv := serve(t, cooling(config(t)))
	w := watch(t, ctx, srv.URL)
	for view, ready := range everyView {
		run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL+view),
			until(fmt.Sprintf("document.querySelector(%q)", ready)))
		for _, look := range looks {
			run(t, ctx, look.set())
			found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](audit))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				t.Errorf("%s, %v: %s", view, look, f)
			}
		}
		run(t, ctx, chromedp.EmulateViewport(1280, 900))
		tabThrough(t, ctx, view)
	}
	w.check(t)
}

// tabThrough moves the focus from the top of a view to its end and checks that each control gets the focus once, in the
// order of the page, and shows it.
func tabThrough(t *testing.T, ctx context.Context, view string) {
	t.Helper()
	const mark = `(() => {
		window.order = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
			.filter((n) => n.checkVisibility() && !n.disabled && !n.closest("dialog") && n.tabIndex >= 0);
		window.reached = [];
		document.addEventListener("focusin", (e) => window.reached.push(e.target));
		document.activeElement.blur();
		return window.order.length;
	})()`
	n, err := chromedp.Run(ctx, chromedp.Evaluate[int](mark))
	if err != nil {
		t.Fatal(err)
	}
	// Rows that appear meanwhile take keys of their own, so the loop continues until the last element has the focus.
	const atEnd = `document.activeElement === window.order.filter((n) => n.isConnected && n.checkVisibility()).at(-1)`
	for range 3 * n {
		run(t, ctx, chromedp.KeyEvent(kb.Tab))
		end, err := chromedp.Run(ctx, chromedp.Evaluate[bool](atEnd))
		if err != nil {
			t.Fatal(err)
		}
		if end {
			break
		}
	}
	const lost = `window.order.filter((n) => n.isConnected && n.checkVisibility() && !window.reached.includes(n)).map((n) => n.outerHTML.slice(0, 100))`
	const back = `window.reached.filter((n, i) => i > 0 && n.isConnected && window.reached[i - 1].isConnected && window.reached[i - 1].compareDocumentPosition(n) & Node.DOCUMENT_POSITION_PRECEDING).map((n) => n.outerHTML.slice(0, 100))`
	const unseen = `(() => {
		const n = document.activeElement, style = getComputedStyle(n);
		return n === document.body || style.outlineStyle !== "none" ? [] : [n.outerHTML.slice(0, 100)];
	})()`
	for what, script := range map[string]string{"no focus": lost, "focus goes back": back,
		"focus is not seen": unseen} {
		found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](script))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			t.Errorf("%s: %s: %s", view, what, f)
		}
	}
}
