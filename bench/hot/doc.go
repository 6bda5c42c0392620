// Command hot compares ways to find hot keys: hotparam's detector, a sliding HeavyKeeper, Space-Saving, WCSS,
// MicroscopeSketch, count-min and sampling (package counters), on traces of others, on generators of others and on
// attacks (package trace), beside an exact count of twenty lines (hot/exact).
//
//	go run ./hot [-seed 1] [-rounds 5] [-jar FILE]   # measures and writes results.json, RESULTS.md and the pictures
//	go run ./hot -draw                               # writes page and pictures from results.json
//	go run ./hot -write DIR                          # writes the traces as text: time key client
//	go run ./hot -hot 500 -trace FILE                # compares on your trace
//	go run ./hot -quick                              # short traces; writes nothing
//
// The traces of requests come from Maven Central (with mvn, or from -jar); without them their rows are left out. They
// and the generators have no times: the clock is made from the seed. All contenders get the same memory, and are asked
// ten times a second for the hot keys and their counts.
package main
