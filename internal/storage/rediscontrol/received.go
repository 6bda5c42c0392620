package rediscontrol

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/counting/arrival"
)

// receivedEvery is how often a publisher writes what it received; a busy one publishes its hot set more often.
const receivedEvery = reportEvery * 9 / 10

// completeField of a publisher's received is 1 if it would have each sender that reaches it. No flow has such an id.
const completeField = "complete"

// appendReceived appends fields and values of what was received, if it is time for them.
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

// Arrivals are the senders of this process, which compare what they sent with what the publishers received.
type Arrivals struct {
	FlowIDs func() []string
	Observe func(arrival.Report)
}

// ObserveArrivals has followers of the hot set read what publishers received of this process: a field for each of its
// flows, in the round trip that reads the set. Call it before Follow.
func (f *Feed) ObserveArrivals(a Arrivals) { f.arrivals = &a }

// askReceived asks what a publisher received of this process. The result hands it on when the pipeline has run.
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
				if flow, err := arrival.ParseFlow(text); err == nil { // one that cannot be read is unknown
					r.Flows[ids[i-1]] = flow
				} else {
					r.Complete = false
				}
			}
		}
		f.arrivals.Observe(r)
	}
}
