package edge

import (
	"bytes"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/held"
)

// statusLeft is the status of a request whose client left before the response.
const statusLeft = 499

// maxGivenMillis bounds the time of a request, which is a day and more.
const maxGivenMillis = 1e8

// Ends ends requests about which a gateway asked. *held.Requests is one.
type Ends interface {
	// Secret is sent to gateways, which send it with their questions as a promise to report the ends.
	Secret() string
	End(number uint64, e held.End) bool
}

// endRequest reads the line of a gateway about a request that has ended, and reports whether the line is sound. A line
// with ">" or "^" is about a request that the gateway let pass without asking, and has its client and its key after the
// costs: "^" if the mean was counted when it passed ("+"), ">" if nothing was ("~"). A line with "<" is about a request
// that has a number, which comes in place of the key.
func (f *Feed) endRequest(now time.Time, text, key []byte) bool {
	fields := bytes.SplitN(text[1:], []byte(","), 5)
	if len(fields) < 4 {
		return false
	}
	status, err := strconv.Atoi(string(fields[0]))
	given := costs.NothingGiven
	ms, hasTime := parseAmount(fields[1], maxGivenMillis)
	size, hasSize := parseAmount(fields[2], 1<<53)
	cost, hasCost := parseAmount(fields[3], 1e12)
	if err != nil || !hasTime || !hasSize || !hasCost {
		return false
	}
	if ms >= 0 {
		given.Time = time.Duration(ms * float64(time.Millisecond))
	}
	if size >= 0 {
		given.Bytes = int64(size)
	}
	given.Cost, given.Left = cost, status == statusLeft
	if text[0] == '<' {
		number, err := strconv.ParseUint(string(key), 16, 64)
		if err == nil && f.cfg.Ends != nil {
			f.cfg.Ends.End(number, held.End{Status: status, Given: given})
		}
		return err == nil && len(fields) == 4
	}
	if len(fields) < 5 || len(key) == 0 || canon.Check(hottype.Key(key)) != nil {
		return false
	}
	client, ok := parseClient(fields[4])
	if !ok {
		return false
	}
	if isTrustedProxy(f.cfg.Gate.Rules(), client) {
		client = hottype.Client{}
	}
	f.cfg.Gate.EndPassed(now, key, client, given, text[0] == '^')
	return true
}

// parseAmount parses a number from 0 to most, or "-", which is -1.
func parseAmount(text []byte, most float64) (n float64, ok bool) {
	if string(text) == "-" {
		return -1, true
	}
	n, err := strconv.ParseFloat(string(text), 64)
	return n, err == nil && n >= 0 && n <= most
}

// appendCosts appends a line for each rule that counts by a cost: its name and the field of the response that has the
// cost, or "-". Gateways report the costs of requests for its keys when they have ended.
func appendCosts(b []byte, set *rules.Set) []byte {
	for _, r := range set.Rules {
		if r.Cost == "" {
			continue
		}
		field := r.Cost.ResponseField()
		if field == "" {
			field = "-"
		}
		b = append(append(append(append(b, "cost "...), field...), ' '), r.Name...)
		b = append(b, '\n')
	}
	return b
}
