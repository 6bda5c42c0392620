// Package udpstat reads what this machine's kernel says about UDP: the largest
// receive buffer that a socket may ask for, the one it is granted, and how many
// datagrams were thrown away. It changes nothing. Where the system is not Linux
// it says that it does not know.
package udpstat
