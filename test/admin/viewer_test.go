package admin_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/auth"
)

// TestViewer_IsOfferedNoChange checks that no view offers a change to a viewer, and that an operator is offered some.
func TestViewer_IsOfferedNoChange(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	if _, err := cfg.Overrides.PutIf(t.Context(), rules.Override{ID: "one", Key: "topic?id=42",
		Action: rules.ActionBlock}, rules.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.Overrides.PutIf(t.Context(), rules.Override{ID: "two", Key: "topic?id=42", Mode: hottype.ModeShadow,
		Action: rules.ActionBlock}, rules.AnyVersion); err != nil {
		t.Fatal(err)
	}
	const viewer, operator = "hp_the-token-of-a-viewer", "hp_the-token-of-an-operator"
	cfg.Access.Tokens = []auth.Token{
		{Name: "eve", Role: auth.Viewer, Hash: sha256.Sum256([]byte(viewer))},
		{Name: "ann", Role: auth.Operator, Hash: sha256.Sum256([]byte(operator))},
	}
	srv := serve(t, cfg)
	const offers = `[...document.querySelectorAll("[data-act], #add-override, #import-label, #w-apply, #w-shadow")].filter((n) => n.checkVisibility()).length`
	for token, least := range map[string]string{viewer: "== 0", operator: "> 3"} {
		ctx := browser(t) // one browser keeps to the first token that it was given
		at := strings.Replace(srv.URL, "//", "//x:"+token+"@", 1)
		for view, ready := range map[string]string{"/": "#hot-table .key", "/overrides": "#overrides tbody tr",
			"/key/topic%3Fid=42": "#key-limits li"} {
			run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(at+view),
				until("document.querySelector('"+ready+"') && document.body.dataset.role"), until(offers+least))
		}
	}
}
