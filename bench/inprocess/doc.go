// Inprocess compares the cost of one request inside a Go service: the gate and the middleware of hotparam, counting
// into a real tally that is flushed ten times a second, beside a hot-parameter rule of sentinel-golang.
//
//	go run ./inprocess [-rounds 5] [-for 300ms] [-flood 3s]
//
// "decision" passes the same finished request to both and reads the verdict. "handler" puts both before an HTTP
// handler, so that parsing the query and writing the 429 are part of the cost.
//
// The flood requests one limited value fifty times a second while as many random other values as the machine can make
// pass by the same rule. With a limit of 10 a second and a burst of 10, at most 10 + 10 x seconds requests may be
// admitted.
package main
