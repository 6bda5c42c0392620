package trace

import (
	"math/rand"

	"github.com/pingcap/go-ycsb/pkg/generator"
)

// ycsbItems is the number of items of the generators of YCSB.
const ycsbItems = 1_000_000

// ycsbSource is the source that the generators of go-ycsb take: they are of the time of math/rand.
func ycsbSource(seed uint64, name string) *rand.Rand {
	return rand.New(rand.NewSource(int64(random(seed, name).Uint64())))
}

// Zipfian returns numbers of YCSB's generator "zipfian", with its own exponent of 0.99.
func Zipfian(n int, seed uint64) []int64 {
	items := generator.NewZipfianWithItems(ycsbItems, generator.ZipfianConstant)
	return draw(n, ycsbSource(seed, "zipfian"), items.Next)
}

// Hotspot returns numbers of YCSB's generator "hotspot": 100 items have 80 % of the requests.
func Hotspot(n int, seed uint64) []int64 {
	return draw(n, ycsbSource(seed, "hotspot"), generator.NewHotspot(0, ycsbItems-1, 0.0001, 0.8).Next)
}

// Latest returns numbers of YCSB's generator "latest", in which the newest items are the most popular. There is a new
// item each time that `every` requests were made.
func Latest(n, every int, seed uint64) []int64 {
	items := generator.NewCounter(ycsbItems)
	items.Next(nil)
	latest, r := generator.NewSkewedLatest(items), ycsbSource(seed, "latest")
	drawn := 0
	return draw(n, r, func(r *rand.Rand) int64 {
		if drawn++; drawn%every == 0 {
			items.Next(r)
		}
		return latest.Next(r)
	})
}

func draw(n int, r *rand.Rand, next func(*rand.Rand) int64) []int64 {
	numbers := make([]int64, n)
	for i := range numbers {
		numbers[i] = next(r)
	}
	return numbers
}
