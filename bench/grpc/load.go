package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// values is the number of values of a key, and denied the number of values over their limit.
const (
	values = 10_000
	denied = 100
)

// connections are the few connections to a service: Envoy has one for each of its threads.
type connections [4]*client

func connect(ctx context.Context, addr string) (*connections, error) {
	var c connections
	for i := range c {
		one, err := dial(ctx, addr, ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName)
		if err != nil {
			return nil, err
		}
		c[i] = one
	}
	return &c, nil
}

func (c *connections) close() {
	for _, one := range c {
		one.close()
	}
}

// message returns a question about one value of a key.
func message(key, value string) ([]byte, error) {
	return proto.Marshal(&ratelimitv3.RateLimitRequest{
		Domain: "bench",
		Descriptors: []*commonv3.RateLimitDescriptor{
			{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: value}}}},
	})
}

// code returns the first field of an answer.
func code(answer []byte) ratelimitv3.RateLimitResponse_Code {
	num, typ, n := protowire.ConsumeTag(answer)
	if num != 1 || typ != protowire.VarintType {
		return ratelimitv3.RateLimitResponse_UNKNOWN
	}
	v, _ := protowire.ConsumeVarint(answer[n:])
	return ratelimitv3.RateLimitResponse_Code(v)
}

// ask makes one call.
func (c *connections) ask(key, value string) (got ratelimitv3.RateLimitResponse_Code, err error) {
	m, err := message(key, value)
	if err != nil {
		return 0, err
	}
	err = c[0].run([]int{0}, time.Now(), func(int) []byte { return m }, func(one *call) error {
		got = code(one.message[prefix:])
		return nil
	})
	return got, err
}

// load makes calls with n callers for d, and returns their number and the 99th percentile of their times. The first
// call a day for a value of refused calls is allowed.
func (c *connections) load(
	_ context.Context, key string, n int, d time.Duration, refused bool,
) (int, time.Duration, error) {
	of, want := values, ratelimitv3.RateLimitResponse_OK
	if refused {
		of, want = denied, ratelimitv3.RateLimitResponse_OVER_LIMIT
	}
	messages := make([][]byte, of)
	for i := range messages {
		m, err := message(key, strconv.Itoa(i))
		if err != nil {
			return 0, 0, err
		}
		messages[i] = m
	}
	end := time.Now().Add(d)
	loads, faults := make([]oneLoad, len(c)), make([]error, len(c))
	var running sync.WaitGroup
	for i, one := range c {
		running.Go(func() { faults[i] = loads[i].run(one, i, n, end, messages, want) })
	}
	running.Wait()
	if err := errors.Join(faults...); err != nil {
		return 0, 0, err
	}
	return sum(key, loads, of)
}

// sum returns the number of calls and the 99th percentile of their times. At most of calls may have another answer than
// wanted.
func sum(key string, loads []oneLoad, of int) (int, time.Duration, error) {
	var times []time.Duration
	others := 0
	for _, l := range loads {
		times, others = append(times, l.times...), others+l.others
	}
	switch {
	case len(times) == 0:
		return 0, 0, errors.New("no calls")
	case others > of:
		return 0, 0, fmt.Errorf("%s: %d of %d calls are not what they should be", key, others, len(times))
	}
	slices.Sort(times)
	return len(times), times[len(times)*99/100], nil
}

// oneLoad holds the results of one connection or caller.
type oneLoad struct {
	times  []time.Duration
	others int // answers other than the wanted answer
}

// run makes the calls of the callers of n that use connection i.
func (l *oneLoad) run(
	c *client, i, n int, end time.Time, messages [][]byte, want ratelimitv3.RateLimitResponse_Code,
) error {
	var callers []int
	next := map[int]int{}
	for caller := i; caller < n; caller += len(connections{}) {
		callers = append(callers, caller)
		next[caller] = caller * 101
	}
	return c.run(callers, end, func(caller int) []byte {
		next[caller]++
		return messages[next[caller]%len(messages)]
	}, func(one *call) error {
		if code(one.message[prefix:]) != want {
			l.others++
		}
		l.times = append(l.times, time.Since(one.began))
		return nil
	})
}
