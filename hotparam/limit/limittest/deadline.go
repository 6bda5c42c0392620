package limittest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// Deadline checks what a store must hold that asks a server: a Take is back when the
// deadline of its context has passed, whatever the server does. freeze stops the server
// from answering; charges are then asked for by many callers at once, twice each.
func Deadline(t testing.TB, store limit.Store, freeze func(), charges ...limit.Charge) {
	t.Helper()
	const (
		callers = 300
		within  = 50 * time.Millisecond
		slack   = 3 * time.Second // machines are busy
	)
	freeze()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 2 {
				ctx, cancel := context.WithTimeout(context.Background(), within)
				began := time.Now()
				_, err := store.Take(ctx, began, charges, make([]limit.Result, len(charges)))
				cancel()
				if took := time.Since(began); took > within+slack {
					t.Errorf("a call with %v was back after %v: %v", within, took, err)
				}
			}
		})
	}
	all.Wait()
}
