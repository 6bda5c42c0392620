// Package adaptive finds the limit that an upstream bears. One [Controller] for each upstream looks
// once a second at what the limiters saw of it, and says how many requests a second and how many at
// a time the hot keys may send there together.
//
// Latency alone says little: below the capacity it hardly changes, above it the queue grows until
// requests time out. So the controller estimates the capacity by the throughput while the upstream is
// saturated, steers the requests in flight by Little's law, and publishes both a rate and a cap on
// requests in flight. Limiters enforce the cap themselves, so they are safe before the controller has
// seen anything, and while it is away.
//
// Everything here is pure: time and reports are arguments.
package adaptive
