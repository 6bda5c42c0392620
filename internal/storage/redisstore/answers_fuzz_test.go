package redisstore

import (
	"encoding/binary"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// numbers reads an answer out of the fuzzer's bytes, eight for each number.
func numbers(data []byte) []int64 {
	var all []int64
	for ; len(data) >= 8; data = data[8:] {
		all = append(all, int64(binary.LittleEndian.Uint64(data)))
	}
	return all
}

// bytesOf is the other way round.
func bytesOf(numbers ...int64) []byte {
	var data []byte
	for _, n := range numbers {
		data = binary.LittleEndian.AppendUint64(data, uint64(n))
	}
	return data
}

// An answer for many requests is refused, or everybody on board reads results that
// a script could have meant.
func FuzzFlightSettle(f *testing.F) {
	f.Add(bytesOf(2, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5, 77))
	f.Add(bytesOf(1, 9, 5, 300, 0, 9, 5, 3, 9, 5, 0, 9, 5, 0, 77))
	f.Add(bytesOf(0, 0, 5, -1, 0, 0, 5, -1, 0, 5, 0, 0, 5, 0, 77))
	charges, _ := aRequest()
	f.Fuzz(func(t *testing.T, data []byte) {
		fl, q := newFlight(), new(question)
		var seats []seat
		for _, n := range []int{1, 1, 3} {
			if err := q.set(newKeys("test"), charges[:n]); err != nil {
				t.Fatal(err)
			}
			s, _ := fl.join(q)
			seats = append(seats, s)
		}
		if fl.settle(numbers(data)) != nil {
			return
		}
		for i, n := range []int{1, 1, 3} {
			results := make([]limit.Result, n)
			admitted := seats[i].read(results)
			for _, r := range results {
				if r.Remaining < 0 || r.ResetAfter < 0 || admitted && !r.Allowed || r.Allowed && r.RetryAfter != 0 || r.RetryAfter < 0 && r.RetryAfter != hottype.Never {
					t.Fatalf("%v: admitted %v: %+v", numbers(data), admitted, results)
				}
			}
		}
		if seats[1].read(make([]limit.Result, 1)) && !seats[0].read(make([]limit.Result, 1)) {
			t.Fatalf("%v: the second of two equal requests passes, the first does not", numbers(data))
		}
	})
}

// An answer for one request is refused, or read as it is.
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
