package edge

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Handler serves GET /v1/edge and POST /v1/edge/counts.
func (f *Feed) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/edge", f.answerPoll)
	mux.HandleFunc("POST /v1/edge/counts", f.receiveCounts)
	return httplimit.WithoutRedirects(mux)
}

// maxWait is how long a poll waits for a change. It bounds the age of a gateway's entries, so that the gateway knows
// it.
const maxWait = time.Second

// answerPoll responds with the changes since a version, at once if there are any.
func (f *Feed) answerPoll(w http.ResponseWriter, r *http.Request) {
	f.polls.Add(1)
	since := r.FormValue("since")
	f.mu.Lock()
	version, changed, own := f.currentVersion(), f.changed, f.rulesVersion
	f.mu.Unlock()
	if theirs := r.FormValue("rules"); theirs != "" && theirs != own {
		n := f.differing.Add(1)
		f.cfg.Log.Warn("edge: a gateway asks about every request, because its file was written from other rules; "+
			"write it again by hotparam gateway, and reload the gateway", "file", quoteShort(theirs), "rules", own,
			"count", n)
	}
	if since == version {
		t := time.NewTimer(maxWait)
		defer t.Stop()
		select {
		case <-changed:
		case <-t.C:
		case <-r.Context().Done():
			return
		}
	}
	body := f.appendChanges(nil, since)
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the gateway polls again
}

func quoteShort(text string) string { return strconv.QuoteToASCII(text[:min(len(text), 40)]) }

// currentVersion returns the version of the feed's state. It needs mu.
func (f *Feed) currentVersion() string { return f.epoch + "-" + strconv.FormatUint(f.seq, 10) }

// appendChanges appends the changes since a version, or everything if the version is unknown.
func (f *Feed) appendChanges(b []byte, since string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, set := f.cfg.Now(), f.cfg.Gate.Rules()
	age := "-"
	if a, ok := f.cfg.Hot.Age(now); ok {
		age = strconv.FormatInt(max(a.Milliseconds(), 0), 10)
	}
	changes, delta := f.changesSince(since)
	form := "all"
	if delta {
		form = "changes"
	}
	b = fmt.Appendf(b, "edge 1 %s %s\nrules %s\nage %s\nprefix %d\n", f.currentVersion(), form, f.rulesVersion, age,
		prefixBytes(set))
	if f.askAll != "" {
		b = fmt.Appendf(b, "ask %s\n", f.askAll)
	}
	if f.longest > 0 {
		b = fmt.Appendf(b, "longest %d\n", f.longest)
	}
	if f.cfg.Ends != nil {
		b = fmt.Appendf(b, "reports %s\n", f.cfg.Ends.Secret())
	}
	b = appendCosts(b, set)
	if !delta {
		for name, e := range f.entries {
			b = e.appendLine(b, now, name)
		}
		return append(b, "end\n"...)
	}
	written := map[string]bool{}
	for i := range changes {
		name := changes[i].name
		if written[name] {
			continue
		}
		written[name] = true
		if e, ok := f.entries[name]; ok {
			b = e.appendLine(b, now, name)
		} else {
			b = append(append(append(b, name[:2]...), "- "...), name[2:]...)
			b = append(b, '\n')
		}
	}
	return append(b, "end\n"...)
}

// changesSince returns the changes since a version, and false if they are unknown. It needs mu.
func (f *Feed) changesSince(version string) ([]change, bool) {
	epoch, number, _ := strings.Cut(version, "-")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || epoch != f.epoch || seq > f.seq || seq < f.forgot {
		return nil, false
	}
	at := len(f.log)
	for at > 0 && f.log[at-1].seq > seq {
		at--
	}
	return f.log[at:], true
}

// appendLine appends the line of a key or client.
func (e entry) appendLine(b []byte, now time.Time, name string) []byte {
	b = append(b, name[:2]...)
	switch {
	case e.block == "":
		b = append(b, byte(e.act), ' ')
	case e.until.IsZero():
		b = append(append(append(b, "0 "...), e.block...), ' ')
	default:
		b = strconv.AppendInt(b, max(e.until.Sub(now).Milliseconds(), 1), 10)
		b = append(append(append(b, ' '), e.block...), ' ')
	}
	return append(append(b, name[2:]...), '\n')
}

// unsupportedPart returns the part of the rules that a gateway cannot apply, or "" if it can apply all.
func unsupportedPart(set *rules.Set) string {
	bits := set.IP.IPv6Prefix
	named := func(w *rules.ClientWindow) bool { return w != nil && w.Field != nil }
	shadow := func(w *rules.ClientWindow) bool { return w != nil && w.Mode == hottype.ModeShadow }
	// A class without limits of its own matters to hot keys alone, and gateways ask about these.
	ownLimits := func(c *rules.Class) bool { return c.Fixed != nil || c.Sliding != nil || c.InFlight != nil }
	switch {
	case slices.ContainsFunc(set.Classes, ownLimits):
		return "classes with limits of their own"
	case bits%8 != 0:
		return "ip.ipv6_prefix is not a multiple of 8"
	case shadow(set.IP.Fixed) || shadow(set.IP.Sliding):
		return "an ip window in shadow mode"
	case named(set.IP.Fixed) || named(set.IP.Sliding):
		return "an ip window with client_key"
	}
	return ""
}

// prefixBytes returns the number of bytes of an IPv6 address that identify its client.
func prefixBytes(set *rules.Set) int {
	if set.IP.IPv6Prefix == 0 {
		return 8
	}
	return set.IP.IPv6Prefix / 8
}

// clientText returns a client in the form of gateways: the bytes of an IPv4 address, or of the prefix of an IPv6
// address, in hex.
func clientText(set *rules.Set, a netip.Addr) string {
	b := a.Unmap().AsSlice()
	if len(b) > 4 {
		b = b[:prefixBytes(set)]
	}
	return hex.EncodeToString(b)
}
