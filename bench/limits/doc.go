// Command limits makes the pictures of docs/limits.md: what each algorithm admits
// over time, taken from the algorithms themselves.
//
//	go run ./limits
//
// One more shows fairness, by the simulation that its tests judge.
//
// It writes one SVG for each into docs/limits, the same bytes each time. A test
// compares the files with what the program makes of today's code, and every
// stretch of every curve with the bound that is drawn beside it.
package main
