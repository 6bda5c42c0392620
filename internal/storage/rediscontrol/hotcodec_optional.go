package rediscontrol

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// After the six fields that every line has follow optional ones, each as name=value, in any order. An absent field has
// its zero value, lower and upper the value of rate. Readers skip names that they do not know.
//
//	lower upper share baseline why clients client client_share cost
//
// A loop is a line with the field loop, the time until which it holds. Its until_us is 0, so that a reader that does
// not know loops takes it for an expired key.
const loopField = "loop"

func appendOptional(dst []byte, h *hottype.HotKey) ([]byte, error) {
	for _, f := range [...]struct {
		name        string
		value, none float64
	}{
		{"lower", h.Lower, h.Rate}, {"upper", h.Upper, h.Rate}, {"share", h.Share, 0}, {"baseline", h.Baseline, 0},
		{"client_share", h.ClientShare, 0},
	} {
		if !isFinite(f.value) {
			return nil, fmt.Errorf("rediscontrol: hot key %q: %s %v must be finite", h.Key, f.name, f.value)
		}
		if f.value != f.none {
			dst = strconv.AppendFloat(appendName(dst, f.name), f.value, 'g', -1, 64)
		}
	}
	if h.Clients != 0 {
		dst = strconv.AppendInt(appendName(dst, "clients"), h.Clients, 10)
	}
	if h.Why != "" {
		dst = appendField(appendName(dst, "why"), h.Why)
	}
	if h.Cost != "" {
		dst = appendField(appendName(dst, "cost"), string(h.Cost))
	}
	if h.HeaviestClient != "" {
		dst = appendField(appendName(dst, "client"), h.HeaviestClient)
	}
	return dst, nil
}

func appendName(dst []byte, name string) []byte {
	return append(append(append(dst, '\t'), name...), '=')
}

// parseOptional reads the rest of a line. It reports whether the line is a loop, whose Until it then sets.
func parseOptional(rest string, h *hottype.HotKey) (loop bool, err error) {
	h.Lower, h.Upper = h.Rate, h.Rate
	for rest != "" && err == nil {
		var field string
		field, rest, _ = strings.Cut(rest, "\t")
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "lower":
			h.Lower, err = parseRate(value)
		case "upper":
			h.Upper, err = parseRate(value)
		case "share":
			h.Share, err = parseRate(value)
		case "baseline":
			h.Baseline, err = parseRate(value)
		case "client_share":
			h.ClientShare, err = parseRate(value)
		case "clients":
			if h.Clients, err = strconv.ParseInt(value, 10, 64); err != nil || h.Clients < 0 || h.Clients > maxRate {
				err = fmt.Errorf("clients %q is not a number up to 2^53", value)
			}
		case "why":
			h.Why = strings.Clone(unescape(value))
		case "cost":
			h.Cost = hottype.Cost(strings.Clone(unescape(value)))
		case "client":
			h.HeaviestClient = strings.Clone(unescape(value))
		case loopField:
			loop = true
			h.Until, err = parseMicros(value)
		}
	}
	return loop, err
}

func appendLoops(dst []byte, loops []hottype.HotKey) ([]byte, error) {
	for i := range loops {
		var err error
		if dst, err = appendLine(dst, &loops[i], 0); err != nil {
			return nil, err
		}
		dst = strconv.AppendInt(appendName(dst, loopField), unixMicros(loops[i].Until), 10)
		dst = append(dst, '\n')
		if len(dst) > bodyMax {
			return nil, fmt.Errorf("rediscontrol: hot set with %d loops is over %d bytes; lower max_hot", len(loops),
				bodyMax)
		}
	}
	return dst, nil
}
