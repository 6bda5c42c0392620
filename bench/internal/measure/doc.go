// Package measure holds the common parts of the comparisons of this module: rounds that interleave the contenders,
// medians with their spread, the cost of one call in time, CPU time and allocations, and the Markdown table in which
// everything is printed.
//
// The machines that run this are small and busy. So everything is measured several times and beside its peer, and a
// ratio is the median of the ratios of rounds, each of two neighbours in time.
package measure
