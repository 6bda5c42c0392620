package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// times holds how long requests took, from the times at which they were due.
type times []time.Duration

// quantile returns the time in ms that a fraction q of the requests did not exceed.
func (t times) quantile(q float64) float64 {
	slices.Sort(t)
	return float64(t[min(len(t)-1, int(q*float64(len(t))))]) / float64(time.Millisecond)
}

// load sends requests at a rate, in turn over some connections, for d.
func load(ctx context.Context, addr string, rate, connections int, d time.Duration) (times, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	all := make([]times, connections)
	errs := make([]error, connections)
	var wg sync.WaitGroup
	every := time.Second / time.Duration(rate)
	began := time.Now()
	for c := range connections {
		wg.Go(func() {
			for i := c; ; i += connections {
				due := time.Duration(i) * every
				if due >= d || ctx.Err() != nil {
					return
				}
				time.Sleep(time.Until(began.Add(due)))
				if err := get(ctx, client, fmt.Sprintf("http://%s/topic?id=%d", addr, i%10000)); err != nil {
					errs[c] = err
					return
				}
				if i >= rate/2 { // the first half second warms up
					all[c] = append(all[c], time.Since(began)-due)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.Concat(all...), nil
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("gateways: %s: status %d, want 200", url, res.StatusCode)
	}
	return nil
}
