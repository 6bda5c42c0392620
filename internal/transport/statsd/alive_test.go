package statsd_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// An idle sender sends a heartbeat to every server after its first silent second; a listener recognises it, and counts
// no requests by it.
func TestSender_SendsHeartbeatsWhenIdle(t *testing.T) {
	t.Parallel()
	box, in := newMailbox(t), newInbox()
	l := listen(t, in, statsd.ListenerConfig{})
	if last, promised := l.LastReceived(); !last.IsZero() || promised {
		t.Errorf("heard at %v before anybody spoke, promised %v", last, promised)
	}
	s := sender(t, statsd.SenderConfig{Servers: []string{box.address, l.Addr().String()}})
	began := time.Now()
	if got := string(box.take(1)[0]); !heartbeat.MatchString(got) || time.Since(began) < 900*time.Millisecond {
		t.Errorf("%q after %v", got, time.Since(began))
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Second); l.Stats().Alive == 0; {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("the sender is not heard")
		}
	}
	if last, promised := l.LastReceived(); last.Before(began) || !promised {
		t.Errorf("heard at %v, promised %v", last, promised)
	}
	if st := s.Stats(); st.Sent+st.Dropped+st.Invalid != 0 || st.Lines == 0 {
		t.Errorf("%+v", st)
	}
	l.stop()
	if len(in.sums) != 0 || l.Stats().Foreign+l.Stats().IgnoredTypes+l.Stats().Malformed != 0 {
		t.Errorf("%v, %+v", in.sums, l.Stats())
	}
}

var heartbeat = regexp.MustCompile(`^hp\.news\.alive:[A-Z2-7]{26}-0\|s$`)

// Servers without sets get a gauge.
func TestSender_SendsGaugeAsHeartbeatWithoutSets(t *testing.T) {
	t.Parallel()
	box := newMailbox(t)
	sender(t, statsd.SenderConfig{Servers: []string{box.address}, NoSets: true})
	if got := string(box.take(1)[0]); got != "hp.news.alive:1|g" {
		t.Errorf("%q", got)
	}
}

// Senders of other programs are received, and promise nothing.
func TestListener_LastReceivedPromisesNothingForOtherSenders(t *testing.T) {
	t.Parallel()
	in := newInbox()
	l := listen(t, in, statsd.ListenerConfig{})
	s := sender(t, statsd.SenderConfig{Servers: []string{l.Addr().String()}})
	s.send(t, hottype.Count{Key: "t?a=1", N: 1}) // within its first second
	in.await(t, "t?a=1", 1)
	if last, promised := l.LastReceived(); time.Since(last) > 5*time.Second || promised {
		t.Errorf("heard at %v, promised %v", last, promised)
	}
}
