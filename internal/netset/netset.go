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

// Of returns the set of networks, in the form that addresses have: IPv4 that is written as IPv6 is unmapped. It returns
// nil if there are no networks. An invalid network contains nothing.
func Of(networks []netip.Prefix) Set {
	if len(networks) == 0 {
		return nil
	}
	s := New()
	for _, p := range networks {
		if addr, bits := p.Addr(), p.Bits(); addr.Is4In6() && bits >= 96 {
			p = netip.PrefixFrom(addr.Unmap(), bits-96)
		}
		if p.IsValid() {
			s.Insert(p.Masked())
		}
	}
	return s
}

// Table is an immutable map from networks to values of the caller. Any number of goroutines may share it. A change
// returns a new table that shares the parts that did not change.
type Table interface {
	// With returns the table with a value for a network, in place of the network's former value.
	With(netip.Prefix, any) Table
	Without(netip.Prefix) Table
	// LookupPrefixLPM returns the longest network of the table that contains the given one, and its value.
	LookupPrefixLPM(netip.Prefix) (netip.Prefix, any, bool)
}

type table struct{ *bart.Table[any] }

// NewTable returns an empty table.
//
//go:noinline
func NewTable() Table { return table{new(bart.Table[any])} }

func (t table) With(n netip.Prefix, v any) Table { return table{t.InsertPersist(n, v)} }

func (t table) Without(n netip.Prefix) Table { return table{t.DeletePersist(n)} }
