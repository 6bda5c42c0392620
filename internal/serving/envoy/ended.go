package envoy

import (
	"strconv"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/serving/held"
)

// Entries by which Envoy reports that a request has ended. The descriptor of the question has the entry "hotparam" with
// the value "reports"; the dynamic metadata of the response then has the member "report" if there is something to
// report. At the end of the stream Envoy sends a descriptor with the entry "hotparam.report", which has that value. One
// with the entry "hotparam.cost" too has a cost as its hits: the time of the upstream in "ms", "bytes", or "cost".
const (
	keyReports   = "hotparam"
	valueReports = "reports"
	keyReport    = "hotparam.report"
	keyCost      = "hotparam.cost"
	memberReport = "report"
)

// endOf returns the number and the cost in a descriptor that reports the end of a request, and whether it does. Envoy
// leaves out a descriptor whose hits it does not know, because the upstream did not begin a response. It sends no hits
// where it does not support them, and where they are 0.
func endOf(d *descriptor) (number uint64, given costs.Given, ok bool) {
	given = costs.NothingGiven
	for _, e := range d.entries {
		switch e.key {
		case keyReport:
			number, _ = strconv.ParseUint(e.value, 10, 64)
			ok = true
		case keyCost:
			n := int64(min(d.hits, maxGiven))
			switch {
			case n == 0:
			case e.value == "ms":
				given.Time = time.Duration(n) * time.Millisecond
			case e.value == "bytes":
				given.Bytes = n
			case e.value == "cost":
				given.Cost = float64(n)
			}
		}
	}
	return number, given, ok
}

// maxGiven is the greatest cost that a report may have: more than 30 years of milliseconds, and a terabyte.
const maxGiven = 1e12

// endRequests ends the requests whose ends a call reports, and reports whether it has any. Two descriptors may have two
// costs of one request.
func (s *Server) endRequests(in *rateLimitRequest) (reported bool) {
	ends := map[uint64]costs.Given{}
	for i := range in.descriptors {
		number, given, ok := endOf(&in.descriptors[i])
		if !ok {
			continue
		}
		reported = true
		if other, known := ends[number]; known {
			given = costs.Given{Time: max(given.Time, other.Time), Bytes: max(given.Bytes, other.Bytes),
				Cost: max(given.Cost, other.Cost)}
		}
		ends[number] = given
	}
	if s.cfg.Held != nil {
		for number, given := range ends {
			s.cfg.Held.End(number, held.End{Status: -1, Given: given})
		}
	}
	return reported
}
