package statsd_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// Datagrams that wait in the kernel count in the seconds in which they were sent, whenever they are read.
func TestListener_PlacesDatagramsWhenTheyArrived(t *testing.T) {
	t.Parallel()
	addresses := []string{"127.0.0.1:0", "[::1]:0", "unix:" + filepath.Join(t.TempDir(), "s")}
	in, listeners, from, to := make([]*inbox, len(addresses)), make([]*statsd.Listener, len(addresses)), [2]int64{},
		[2]int64{}
	for i, addr := range addresses {
		in[i] = newInbox()
		in[i].seconds = make(chan int64, 100)
		var err error
		listeners[i], err = statsd.NewListener(statsd.ListenerConfig{Addresses: []string{addr}, Names: hp1,
			Handle: in[i].handle})
		if err != nil {
			t.Fatal(err)
		}
	}
	for second := range from {
		now := time.Now()
		<-time.After(now.Truncate(time.Second).Add(time.Second).Sub(now)) // the next second
		from[second] = time.Now().Unix()
		for _, l := range listeners {
			say(t, dial(t, l.Addr()), "hp.news.topic.hot_param.id=1:1|c")
		}
		to[second] = time.Now().Unix()
	}
	for i, l := range listeners {
		run(t, l)
		in[i].await(t, "topic?id=1", 2)
		if len(in[i].seconds) != len(from) {
			t.Fatalf("%s: %d counts, want one for each second", addresses[i], len(in[i].seconds))
		}
		for j := range from {
			if second := <-in[i].seconds; second < from[j] || second > to[j] {
				t.Errorf("%s: count %d is in second %d, it was sent in %d to %d",
					strings.SplitN(addresses[i], ":", 2)[0], j, second, from[j], to[j])
			}
		}
	}
}
