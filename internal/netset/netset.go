// Package netset holds sets and tables of networks, which find the longest prefix that contains an address.
//
// The package hides the generic types of bart behind interfaces. Go compiles a generic type again in each package whose
// types contain it, and bart's tables take two seconds each time.
package netset

import (
	"net/netip"

	"github.com/gaissmai/bart"
)

// Set is a set of networks. It may be read by many goroutines once it is complete.
type Set interface {
	Insert(netip.Prefix)
	// Lookup reports whether a network of the set contains the address.
	Lookup(netip.Addr) bool
	// LookupPrefixLPM returns the longest network of the set that contains the given one.
	LookupPrefixLPM(netip.Prefix) (netip.Prefix, bool)
}

// New returns an empty set.
//
//go:noinline
func New() Set { return new(bart.Lite) }

// Table maps networks to positions in a list of the caller. It may be read by many goroutines once it is complete.
type Table interface {
	Insert(netip.Prefix, int)
	// LookupPrefixLPM returns the longest network of the table that contains the given one, and its position.
	LookupPrefixLPM(netip.Prefix) (netip.Prefix, int, bool)
}

// NewTable returns an empty table.
//
//go:noinline
func NewTable() Table { return new(bart.Table[int]) }
