// Package measure is what the comparisons of this module share: rounds that
// interleave the contenders, medians with their spread, the cost of one call in
// time, CPU time and allocations, and the Markdown table in which all of it is
// printed.
//
// The machines that run this are small and busy. So nothing is measured once,
// nothing is measured without its peer beside it, and a ratio is the median of
// the ratios of rounds, each of two neighbours in time.
package measure
