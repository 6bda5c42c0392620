// Command limits makes the pictures of docs/limits.md: the calls that each algorithm admits over time, taken from the
// algorithms themselves.
//
//	go run ./limits
//
// One more picture shows fairness, by the simulation that its tests judge.
//
// It writes one SVG for each into docs/limits, the same bytes each time. A test compares the files with the output of
// the present code, and every stretch of every curve with the bound that is drawn beside it.
package main
