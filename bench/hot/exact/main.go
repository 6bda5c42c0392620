// Exact counts a trace without any estimate, in twenty lines. It prints, ten times a second, each key that came so
// often in the five seconds before: time, key, count. Command hot takes its output for the truth.
//
//	go run ./hot/exact 500 < trace.txt
package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"strconv"
)

func main() {
	hot, _ := strconv.Atoi(os.Args[1])
	counts, times, keys, now, at, key := map[string]int{}, []int{}, []string{}, 100, 0, ""
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); counts[key]++ {
		fmt.Sscan(lines.Text(), &at, &key)
		for ; now <= at; now += 100 {
			for ; len(times) > 0 && times[0] < now-5000; times, keys = times[1:], keys[1:] {
				counts[keys[0]]--
			}
			maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
			for key, n := range counts {
				if n >= hot {
					fmt.Println(now, key, n)
				}
			}
		}
		times, keys = append(times, at), append(keys, key)
	}
}
