package statsd

import "sync/atomic"

// fault is why a line is malformed; sound: it is not.
type fault uint8

const (
	noFault fault = iota
	tooLong
	cutOff
	noName
	badName
	noType
	badType
	badNumber
	tooMany
	badRate
	badTime
	badMember
	faults // how many there are
)

// reasons name the faults in metrics, and say them in the log.
var reasons = [faults]struct{ name, says string }{
	tooLong:   {"too_long", "the line is too long"},
	cutOff:    {"cut_off", "the end of the datagram or of the connection cut the line off"},
	noName:    {"no_name", "the line has no name, or no colon behind it; want name:value|c"},
	badName:   {"name", "the name has our prefix and is not written as names.style says"},
	noType:    {"no_type", "the value has no type behind it; want value|c"},
	badType:   {"type", "the type is none that is known: c (a counter), s, g, ms, h, d, m, set"},
	badNumber: {"value", "a counter's value is not a decimal number from 0 on"},
	tooMany:   {"count", "the line counts more than one line may (statsd.max_count)"},
	badRate:   {"rate", "the sample rate is not one number above 0 and up to 1 behind @, or a section is empty"},
	badTime:   {"time", "the time is not one number of whole unix seconds behind T"},
	badMember: {"member", "the member of the set is not one that a sender of ours writes"},
}

// MalformedStats is how many lines were malformed for one reason.
type MalformedStats struct {
	Lines uint64 `metric:"hotparam_statsd_in_malformed_lines_total" help:"Lines that cannot be read, by what is wrong with them."`
}

// faultCounts count lines by their fault.
type faultCounts [faults]atomic.Uint64

// read adds the counts to a map, with those that are 0.
func (c *faultCounts) read(to map[string]MalformedStats) {
	for f := noFault + 1; f < faults; f++ {
		s := to[reasons[f].name]
		s.Lines += c[f].Load()
		to[reasons[f].name] = s
	}
}
