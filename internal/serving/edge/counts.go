package edge

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

const (
	maxCounts   = 4 << 20 // bytes of a post
	maxRepeated = 1000    // requests of a line of it
	// A bound of the charges under way, because each may be a call of Redis.
	chargers       = 16
	minSuspicion   = 2 * time.Second
	maxSuspicion   = time.Minute
	trustSuspicion = time.Minute
)

// receiveCounts receives the decisions that a gateway took without asking, one line for each request: "+" for passed,
// "~" for passed with a cost that follows, "-" for denied or "=" for answered from the gateway's cache, the client, a
// space, and the key. A line that begins with a number stands for that number of requests. The parameter lost is the
// number of requests that the gateway could not keep. Other lines are about requests that have ended (endRequest).
func (f *Feed) receiveCounts(w http.ResponseWriter, r *http.Request) {
	if n, err := strconv.ParseUint(r.URL.Query().Get("lost"), 10, 32); err == nil {
		f.lost.Add(n)
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxCounts)); err != nil {
		status := http.StatusBadRequest
		if errors.As(err, new(*http.MaxBytesError)) {
			status = http.StatusRequestEntityTooLarge
		}
		httplimit.WriteProblem(w, status, "The counts cannot be read: "+err.Error()+".")
		return
	}
	f.Count(r.Context(), body.Bytes())
	w.WriteHeader(http.StatusNoContent)
}

// Count counts the lines of a post, and charges the windows of their clients.
func (f *Feed) Count(ctx context.Context, lines []byte) {
	now, set := f.cfg.Now(), f.cfg.Gate.Rules()
	clients := map[hottype.Client]int64{}
	for len(lines) > 0 {
		var line []byte
		line, lines, _ = bytes.Cut(lines, []byte("\n"))
		text, key, ok := bytes.Cut(line, []byte(" "))
		if ok && len(text) > 1 && bytes.IndexByte([]byte("<>^"), text[0]) >= 0 {
			if !f.endRequest(now, text, key) {
				f.invalid.Add(1)
			}
			continue
		}
		text, n, counted := readRequestCount(text)
		if !ok || !counted || len(text) < 2 || !bytes.ContainsRune([]byte("+-=~"), rune(text[0])) ||
			len(key) > 0 && canon.Check(hottype.Key(key)) != nil {
			f.invalid.Add(1)
			continue
		}
		client, ok := parseClient(text[1:])
		if !ok {
			f.invalid.Add(1)
			continue
		}
		passed := text[0] != '-'
		if isTrustedProxy(set, client) { // its clients are in fields that only a question carries
			f.suspectClient(client, now.Add(trustSuspicion))
			client = hottype.Client{}
		}
		f.cfg.Gate.Passed(now, gate.PassedRequests{Key: key, Client: client, N: n, Allowed: passed,
			Cached: text[0] == '=', CostFollows: text[0] == '~'})
		f.counted.Add(uint64(n))
		if passed && !client.IsZero() && len(clients) < maxEntries {
			clients[client] += n
		}
	}
	f.chargeClients(ctx, now, clients)
}

// readRequestCount reads the number of requests that a line stands for, or 1 if it has no number. It accepts at most
// maxRepeated.
func readRequestCount(line []byte) (rest []byte, n int64, ok bool) {
	digits := bytes.IndexFunc(line, func(r rune) bool { return r < '0' || r > '9' })
	if digits <= 0 {
		return line, 1, digits == 0
	}
	n, err := strconv.ParseInt(string(line[:digits]), 10, 64)
	return line[digits:], n, err == nil && n > 0 && n <= maxRepeated
}

// isTrustedProxy reports whether any address of a client is a proxy that names its clients.
func isTrustedProxy(set *rules.Set, c hottype.Client) bool {
	network := netip.PrefixFrom(c.Addr, min(c.Addr.BitLen(), 8*prefixBytes(set)))
	return slices.ContainsFunc(set.IP.TrustedProxies, network.Overlaps)
}

// chargeClients charges the windows of clients afterwards. It suspects a client that has used half of a window, so that
// gateways ask about its requests.
func (f *Feed) chargeClients(ctx context.Context, now time.Time, clients map[hottype.Client]int64) {
	var wg sync.WaitGroup
	places := make(chan struct{}, chargers)
	for c, n := range clients {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			v := f.cfg.Gate.ChargeClient(ctx, now, c, n)
			if v.Allowed && (v.Limit == 0 || v.Remaining >= v.Limit/2) {
				return
			}
			if !v.Allowed && 0 < v.Remaining && v.Remaining < n {
				f.cfg.Gate.ChargeClient(ctx, now, c, v.Remaining)
			}
			f.suspectClient(c, now.Add(min(max(v.ResetAfter, v.RetryAfter, minSuspicion), maxSuspicion)))
		})
	}
	wg.Wait()
}

// suspectClient makes gateways ask about a client until time until.
func (f *Feed) suspectClient(c hottype.Client, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, there := f.suspects[c]
	if !there && len(f.suspects) >= maxEntries/2 {
		return
	}
	if !there {
		f.suspected.Add(1)
		f.dirty = true
	}
	if until.After(old) {
		f.suspects[c] = until
	}
}

// parseClient parses a client in the form of clientText.
func parseClient(text []byte) (c hottype.Client, ok bool) {
	var b [16]byte
	switch n, err := hex.Decode(b[:], text[:min(len(text), 16)]); {
	case err != nil || len(text) > 16:
	case n == 4:
		return hottype.ClientFromAddr(netip.AddrFrom4([4]byte(b[:4]))), true
	case n >= 6 && n <= 8:
		return hottype.ClientFromAddr(netip.AddrFrom16(b)), true
	}
	return c, false
}
