// Batch measures POST /v1/decide with a hundred checks in a request, over loopback HTTP with kept connections. Client
// and server are in one process and share its cores, so a server alone could do more.
//
//	go run ./batch [-rounds 7] [-for 1s] [-clients 1,4,16] [-checks 100]
//
// The gate counts into a tally, fills in the key of every answer, and has two per-IP windows in the rows that name
// them. Every check is for another of 10,000 topics and 1000 clients. There is no peer in this program.
package main
