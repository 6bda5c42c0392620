// Package edge serves gateways that decide about most requests themselves: it has nothing to do with a request whose
// key is cold.
//
// A gateway makes the keys of plain targets by a file that [Nginx] writes. It polls the [Feed] for what it has to ask
// about, and posts what it decided without asking, which is counted and charged as if it had asked.
// docs/protocol.md has the formats. Clients are IPv4 addresses also on a socket for IPv4 and IPv6: the gateway unmaps
// ::ffff:a.b.c.d, whose first eight bytes would make one client of all.
//
// It decides nothing.
package edge
