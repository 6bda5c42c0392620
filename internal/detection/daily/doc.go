// Package daily adds up a day: how much was counted, which keys were busiest,
// what was hot and for how long, what limiters decided. Counts, hot keys and
// reports enter, a [hotparam.Summary] leaves. Memory is bounded whatever keys
// strangers make up.
//
// The room is pure: time is an argument.
package daily
