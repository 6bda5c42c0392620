package rule

import (
	"math"
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Rate{
		"100": {100, time.Second}, "100/s": {100, time.Second}, "0.5": {1, 2 * time.Second}, "30/m": {30, time.Minute},
		"24/h": {24, time.Hour}, "7/d": {7, 24 * time.Hour}, "2.5": {5, 2 * time.Second}, "1.5/m": {3, 2 * time.Minute},
		"0.001": {1, 1000 * time.Second}, "1000000000": {1e9, time.Second}, "0.333333": {333333, 1e6 * time.Second},
		"10/3s": {10, 3 * time.Second}, "100/500ms": {100, time.Second / 2},
	} {
		got, err := ParseRate(text)
		if got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
		back, ok := ExactRate(got.PerSecond())
		if !ok || float64(back.N)*want.Per.Seconds() != float64(want.N)*back.Per.Seconds() {
			t.Errorf("%s as a float is %+v", text, back)
		}
	}
	for _, bad := range []string{"", "/s", "1/", "0", "-1", "1e3", "0x10", "1_000", "1000000001", "0.0000001", "NaN",
		"1/m/s", "1 /m", "60000000001/m",
		"1.5/3s", "0/1s", "-1/1s", "1/0s", "1/25h", "1/1us", "2000000001/2s"} {
		if r, err := ParseRate(bad); err == nil {
			t.Errorf("%q is %+v", bad, r)
		}
	}
	if math.IsNaN(Rate{}.PerSecond()) {
		t.Error("the zero rate is not a number")
	}
}
