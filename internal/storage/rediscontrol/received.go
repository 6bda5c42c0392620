package rediscontrol

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/counting/arrival"
)

// receivedEvery is the interval at which a publisher writes its received flows, because a busy one publishes its hot
// set more often.
const receivedEvery = reportEvery * 9 / 10

// completeField is the field of a publisher's received flows that is 1 if they include each sender that reaches it. No
// flow has such an id.
const completeField = "complete"

// appendReceived appends the fields and values of the received flows, if their interval has passed.
func (p *Publisher) appendReceived(args []any) []any {
	now := p.feed.now()
	if p.cfg.Received == nil || now.Sub(p.received) < receivedEvery {
		return args
	}
	p.received = now
	flows, complete := p.cfg.Received()
	args = append(args, completeField, complete)
	for id, f := range flows {
		args = append(args, id, f.Append(nil))
	}
	return args
}

// Arrivals connects to the senders of this process, which compare the lines that they sent with the lines that
// publishers received.
type Arrivals struct {
	FlowIDs func() []string
	Observe func(arrival.Report)
}

// ObserveArrivals makes followers of the hot set read how much publishers received of this process: a field for each of
// its flows, in the round trip that reads the set. Call it before Follow.
func (f *Feed) ObserveArrivals(a Arrivals) { f.arrivals = &a }

// askReceived asks for the flows of this process that a publisher received. The returned function reports them to
// Observe after the pipeline has run.
func (f *Feed) askReceived(ctx context.Context, p redis.Pipeliner, publisher string) func() {
	if f.arrivals == nil {
		return func() {}
	}
	ids := f.arrivals.FlowIDs()
	values := p.HMGet(ctx, f.keys.HotReceived(publisher), append([]string{completeField}, ids...)...)
	return func() {
		r := arrival.Report{Publisher: publisher, Flows: map[string]arrival.Flow{}}
		for i, value := range values.Val() {
			text, ok := value.(string)
			switch {
			case !ok:
			case i == 0:
				r.Complete = text == "1"
			default:
				if flow, err := arrival.ParseFlow(text); err == nil { // an unreadable flow is unknown
					r.Flows[ids[i-1]] = flow
				} else {
					r.Complete = false
				}
			}
		}
		f.arrivals.Observe(r)
	}
}
