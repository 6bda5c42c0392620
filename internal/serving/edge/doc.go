// Package edge serves gateways that decide about most requests themselves, so that a request whose key is cold does not
// reach this process.
//
// A gateway makes the keys of plain targets by a file that [Nginx] or [HAProxy] writes. It polls the [Feed] for the
// keys and clients about which it has to ask. It posts the decisions that it took without asking, which are counted and
// charged as if it had asked. docs/protocol.md has the formats. Clients are IPv4 addresses also on a socket for IPv4
// and IPv6: the gateway unmaps ::ffff:a.b.c.d, because its first eight bytes would make all these addresses one client.
//
// Package edge makes no decision itself.
package edge
