package admin_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/internal/storage/filestore"
)

// manyOverrides returns a store with as many overrides as it may have, o9999 the newest.
func manyOverrides(t *testing.T) *filestore.Overrides {
	t.Helper()
	dir := t.TempDir()
	var file bytes.Buffer
	file.WriteString(`{"version": 1, "overrides": [`)
	created := time.Now().UTC().Add(-24 * time.Hour)
	for i := range filestore.MaxOverrides {
		if i > 0 {
			file.WriteByte(',')
		}
		fmt.Fprintf(&file, `{"id": "o%d", "key": "topic?id=%d", "action": "block", "author": "ann", "created": %q}`, i, i,
			created.Add(time.Duration(i)*time.Second).Format(time.RFC3339))
	}
	file.WriteString(`]}`)
	if err := os.WriteFile(filepath.Join(dir, "overrides.json"), file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := filestore.OpenOverrides(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// TestOverrides_AreShownInPages opens the view of 10,000 overrides: the page has few nodes, every override can be
// reached by pages and by a search, and a change of one that the stream does not send is shown.
func TestOverrides_AreShownInPages(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg := config(t)
	cfg.Overrides = manyOverrides(t)
	srv := serve(t, cfg)
	const few = "document.querySelectorAll('*').length < 4000"
	rows := func(n int) string {
		return fmt.Sprintf("document.querySelectorAll('#overrides tbody tr').length == %d", n)
	}
	run(t, ctx, chromedp.Navigate(srv.URL+"/overrides"), says("#overrides-more", "1 to 50 of 10,00"),
		says("#overrides tbody tr", "topic?id=9999"), until(rows(50)), until(few),
		clickOn("#overrides-after"), says("#overrides-more", "51 to 100 of"),
		says("#overrides tbody tr", "topic?id=9949"),
		clickOn("#overrides-last"), says("#overrides tbody", "topic?id=0"), until(few),
		until("document.querySelector('#overrides-after').disabled"),
		clickOn("#overrides-first"), says("#overrides tbody tr", "topic?id=9999"))
	run(t, ctx, fill("#overrides-find", "id=77"), says("#overrides-more", "1 to 50 of 111"),
		until(rows(50)), fill("#overrides-find", "id=7777"), until(rows(1)),
		clickOn("#overrides [data-act=remove]"), says("#toast", "Removed"), until(rows(0)),
		says("#overrides-more", "no override matches"), fill("#overrides-find", "id=7778"), until(rows(1)))
}
