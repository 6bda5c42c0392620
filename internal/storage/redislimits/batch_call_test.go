package redislimits

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// numbers reads an answer from the fuzzer's bytes, eight for each number.
func numbers(data []byte) []int64 {
	var all []int64
	for ; len(data) >= 8; data = data[8:] {
		all = append(all, int64(binary.LittleEndian.Uint64(data)))
	}
	return all
}

// bytesOf is the inverse of numbers.
func bytesOf(numbers ...int64) []byte {
	var data []byte
	for _, n := range numbers {
		data = binary.LittleEndian.AppendUint64(data, uint64(n))
	}
	return data
}

// someBatch returns a batch of two equal requests with one charge and one request with three.
func someBatch(t *testing.T) (*batch, []waiter) {
	t.Helper()
	charges, _ := aRequest()
	b, r := newBatch(), new(request)
	var waiters []waiter
	for _, n := range []int{1, 1, 3} {
		if err := r.set(newKeys("test"), charges[:n]); err != nil {
			t.Fatal(err)
		}
		w, _ := b.add(context.Background(), r)
		waiters = append(waiters, w)
	}
	return b, waiters
}

// The arguments, read as lua/limit_many.lua documents them, contain exactly all requests, in the order of their
// arrival.
func TestBatchEncode_ContainsAllRequestsInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b, r := newBatch(), new(request)
		for range rapid.IntRange(1, 40).Draw(rt, "requests") {
			charges := drawRequest(rt)
			if n := len(charges); n > 1 && rapid.Bool().Draw(rt, "own") { // as with windows of clients beside a hot key
				charges[n-1].Subject.Space = fmt.Sprint("own", len(b.requests))
			}
			if err := r.set(newKeys("test"), charges); err != nil {
				rt.Fatal(err)
			}
			b.add(context.Background(), r)
		}
		want := ""
		for _, q := range b.requests {
			for range q.waiters {
				want += fmt.Sprintln(b.shapes[q.shape])
				for _, k := range b.targets[q.target:][:len(b.shapes[q.shape])] {
					want += fmt.Sprintln(b.keys[k])
				}
			}
		}
		if got := requestsOf(b.encode(nil)); got != want {
			rt.Fatalf("the script reads\n%s\nwant\n%s", got, want)
		}
	})
}

// requestsOf reads the arguments of lua/limit_many.lua as the script does.
func requestsOf(args []any) (all string) {
	number := func() int { n := args[0].(int); args = args[1:]; return n }
	n := number()
	keys := args[:n]
	args = args[n:]
	if len(args) < 7 {
		args = []any{1, 1, "t" + fmt.Sprint(args[5:]...), args[0], args[1], args[2], args[3], 1, args[4], 1, 0}
	}
	shapes := make([][]charged, number())
	for s := range shapes {
		for range number() {
			kind := args[0].(string)
			c := charged{
				limitcore.Compiled{Kind: limitcore.Kind(kind[0]), Capacity: args[2].(int64),
					Unit: args[3].(int64), Fill: args[4].(int64)},
				args[1].(int64),
			}
			if c.Kind == limitcore.KindBucket { // the script's capacity is in units
				c.Reserve, _ = strconv.ParseInt(kind[1:], 10, 64)
				c.Capacity, c.Slack = (c.Capacity-c.Reserve)/c.Unit, c.Capacity%c.Unit
			}
			shapes[s], args = append(shapes[s], c), args[5:]
		}
	}
	for len(args) > 0 {
		shape, times := number(), number()
		charges := shapes[max(shape, -shape)-1]
		first, steps := make([]int, len(charges)), make([]int, len(charges))
		for i := range charges {
			first[i], steps[i] = number(), number()
		}
		for n := range times {
			all += fmt.Sprintln(charges)
			for i := range charges {
				all += fmt.Sprintln(keys[first[i]+n*steps[i]-1])
			}
		}
	}
	return all
}

// An answer that the script cannot give is an error for all waiters.
func TestBatchDecode_RejectsImpossibleAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer []int64
		want   string
	}{
		{[]int64{2, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5, 77}, ""},
		{[]int64{1, 9, 5, 300, 0, 9, 5, 3, 9, 5, 0, 9, 5, 0, 77}, ""},
		{[]int64{0, 0, 5, -1, 0, 0, 5, -1, 0, 5, 0, 0, 5, 0, 77}, ""},
		{nil, "at 0"},
		{[]int64{3, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5}, "must be 0 to 2"},
		{[]int64{-1, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5}, "must be 0 to 2"},
		{[]int64{2, 9, 5, 7}, "at 4"},
		{[]int64{2, 9, 5, 7, 1, 9, 5, 9, 5, 9}, "at 10"},
		{[]int64{2, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5}, "must have 12"},
		{[]int64{2, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5, 1, 77}, "must have 12"},
		{[]int64{2, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5, -1}, "must have 12"},
		{[]int64{2, 9, -2, 7, 1, 9, 5, 9, 5, 9, 5}, "at 2"},
	} {
		b, _ := someBatch(t)
		if err := b.decode(c.answer); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.answer, err, c.want)
		}
	}
}

// An answer is rejected, or every waiter reads results that a script could have returned.
func FuzzBatchDecode(f *testing.F) {
	f.Add(bytesOf(2, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5, 77))
	f.Add(bytesOf(1, 9, 5, 300, 0, 9, 5, 3, 9, 5, 0, 9, 5, 0, 77))
	f.Add(bytesOf(0, 0, 5, -1, 0, 0, 5, -1, 0, 5, 0, 0, 5, 0, 77))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, waiters := someBatch(t)
		if b.decode(numbers(data)) != nil {
			return
		}
		for i, n := range []int{1, 1, 3} {
			results := make([]limit.Result, n)
			admitted := waiters[i].readResults(results)
			for _, r := range results {
				if r.Remaining < 0 || r.ResetAfter < 0 || admitted && !r.Allowed || r.Allowed && r.RetryAfter != 0 ||
					r.RetryAfter < 0 && r.RetryAfter != hottype.Never {
					t.Fatalf("%v: admitted %v: %+v", numbers(data), admitted, results)
				}
			}
		}
		if waiters[1].readResults(make([]limit.Result, 1)) && !waiters[0].readResults(make([]limit.Result, 1)) {
			t.Fatalf("%v: the second of two equal requests passes, the first does not", numbers(data))
		}
	})
}

// An answer for one request is rejected, or read unchanged.
func FuzzReadDecision(f *testing.F) {
	f.Add(bytesOf(1, 1, 9, 0, 5, 77), byte(1))
	f.Add(bytesOf(0, 0, 0, -1, 7, 1, 9, 0, 5, 77), byte(2))
	f.Fuzz(func(t *testing.T, data []byte, charges byte) {
		var reply []any
		for _, n := range numbers(data) {
			reply = append(reply, n)
		}
		results := make([]limit.Result, charges%8)
		_, at, err := readDecision(reply, results)
		if err != nil {
			return
		}
		for _, r := range results {
			if at < 0 || r.Remaining < 0 || r.ResetAfter < 0 || r.RetryAfter < 0 && r.RetryAfter != hottype.Never {
				t.Fatalf("%v at %d: %+v", reply, at, results)
			}
		}
	})
}
