package admin

import (
	"reflect"
	"strings"
	"time"
	"unicode"
)

// number64 is the value of a field and what kind of thing it counts.
type number64 struct {
	value             float64
	unsigned, seconds bool
}

func valueOf(v reflect.Value) (number64, bool) {
	if !v.IsValid() {
		return number64{}, false
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return number64{value: x.Seconds(), seconds: true}, true
	case time.Time:
		if x.IsZero() {
			return number64{seconds: true}, true
		}
		return number64{value: float64(x.UnixMilli()) / 1000, seconds: true}, true
	}
	switch {
	case v.CanUint():
		return number64{value: float64(v.Uint()), unsigned: true}, true
	case v.CanInt():
		return number64{value: float64(v.Int())}, true
	case v.CanFloat():
		return number64{value: v.Float()}, true
	case v.Kind() == reflect.Bool && v.Bool():
		return number64{value: 1}, true
	case v.Kind() == reflect.Bool:
		return number64{}, true
	}
	return number64{}, false
}

// buckets is a histogram as Prometheus takes it: counts are cumulative, bounds
// and sum in seconds.
type buckets struct {
	count   uint64
	sum     float64
	buckets map[float64]uint64
}

// histogramOf knows a histogram by its shape, so that packages need not import
// anything to have one. Buckets is empty where the bounds are not set yet: its
// zero bounds would be a bucket that goes again.
func histogramOf(v reflect.Value) (buckets, bool) {
	if v.Kind() != reflect.Struct || v.NumField() != 3 {
		return buckets{}, false
	}
	bounds, counts, total := v.FieldByName("Bounds"), v.FieldByName("Counts"), v.FieldByName("Sum")
	if !total.IsValid() || !isListOf(bounds, reflect.TypeFor[time.Duration]()) || !isListOf(counts, reflect.TypeFor[uint64]()) || counts.Len() != bounds.Len()+1 {
		return buckets{}, false
	}
	sum, ok := total.Interface().(time.Duration)
	if !ok {
		return buckets{}, false
	}
	if bounds.Len() == 0 || bounds.Index(0).Int() <= 0 {
		return buckets{}, true
	}
	h := buckets{sum: sum.Seconds(), buckets: make(map[float64]uint64, bounds.Len())}
	for i := range counts.Len() {
		h.count += counts.Index(i).Uint()
		if i < bounds.Len() {
			h.buckets[time.Duration(bounds.Index(i).Int()).Seconds()] = h.count
		}
	}
	return h, true
}

func isListOf(v reflect.Value, elem reflect.Type) bool {
	return v.IsValid() && (v.Kind() == reflect.Array || v.Kind() == reflect.Slice) && v.Type().Elem() == elem
}

// pointed follows pointers and interfaces; nil gives the invalid value.
func pointed(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

func suffixed(name, suffix string) string {
	if strings.HasSuffix(name, suffix) {
		return name
	}
	return name + suffix
}

// snake writes a Go name as metrics are: DroppedLate is dropped_late, IPFixed
// is ip_fixed. Bytes that a metric's name may not have become "_".
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 {
			afterLower := !unicode.IsUpper(runes[i-1])
			beforeLower := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if (afterLower || beforeLower) && !isGap(runes[i-1]) {
				b.WriteByte('_')
			}
		}
		r = unicode.ToLower(r)
		if isGap(r) {
			r = '_'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// isGap reports whether a metric's name has "_" in place of r.
func isGap(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) }
