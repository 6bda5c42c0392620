// Inprocess compares what one request costs inside a Go service: the gate and
// the middleware of hotparam, counting into a real tally that is flushed ten
// times a second, beside a hot-parameter rule of sentinel-golang.
//
//	go run ./inprocess [-rounds 5] [-for 300ms] [-flood 3s]
//
// "decision" hands both the same finished request and looks at the answer.
// "handler" puts both before an HTTP handler, so that parsing the query and
// writing the 429 is part of the cost.
//
// The flood asks for one limited value fifty times a second while as many random
// other values as the machine can make pass by the same rule. Limited to
// 10 a second with a burst of 10, no more than 10 + 10 x seconds may be admitted.
package main
