package graphite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
)

// series is one element of an answer. Point is value and time; a value that is
// missing is "".
type series struct {
	Target     string           `json:"target"`
	Datapoints [][2]json.Number `json:"datapoints"`
}

// bucket is a value and its time.
type bucket struct {
	at    int64
	value float64
}

// errTooBig says that an answer is longer than it may be.
var errTooBig = errors.New("the answer is too long")

// readSeries calls each for every series of an answer in JSON. Those before a
// fault have been read.
func readSeries(r io.Reader, each func(*series)) error {
	dec := json.NewDecoder(r)
	open, err := dec.Token()
	if err != nil {
		return fault(err)
	}
	if open != json.Delim('[') {
		return fmt.Errorf("the answer is no list of series, it begins with %.20v", open)
	}
	for dec.More() {
		var s series
		if err := dec.Decode(&s); err != nil {
			return fault(err)
		}
		each(&s)
	}
	_, err = dec.Token()
	return fault(err)
}

func fault(err error) error {
	_, tooBig := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		return nil
	case tooBig:
		return errTooBig
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the answer ends too early")
	}
	return fmt.Errorf("the answer is no JSON of the render API: %w", err)
}

// buckets are the points of a series in the order of time, those without a
// value left out, and step the distance between points, 0 for a single one.
// Last is the time of the last point, with a value or not.
func (s *series) buckets(dst []bucket) (_ []bucket, step, last int64, bad int) {
	times := make([]int64, 0, len(s.Datapoints))
	for _, p := range s.Datapoints {
		at, err := strconv.ParseInt(string(p[1]), 10, 64)
		if err != nil || at <= 0 || at > maxTime {
			bad++
			continue
		}
		times = append(times, at)
		if p[0] == "" {
			continue
		}
		v, err := strconv.ParseFloat(string(p[0]), 64)
		if err != nil || math.IsNaN(v) || v < 0 || v > maxValue {
			bad++
			continue
		}
		dst = append(dst, bucket{at, v})
	}
	slices.Sort(times)
	for i := 1; i < len(times); i++ {
		if d := times[i] - times[i-1]; d > 0 && (step == 0 || d < step) {
			step = d
		}
	}
	if len(times) > 0 {
		last = times[len(times)-1]
	}
	if !slices.IsSortedFunc(dst, byTime) {
		slices.SortStableFunc(dst, byTime)
	}
	return dst, step, last, bad
}

func byTime(a, b bucket) int { return int(a.at - b.at) }

const (
	maxTime  = 1 << 40 // in the year 36812
	maxValue = 1 << 53 // beyond it a float is no exact count
)

// spread divides n requests evenly among k seconds: what the i-th has.
func spread(n, k, i int64) int64 {
	whole, rest := n/k, n%k
	return whole + rest*(i+1)/k - rest*i/k
}
