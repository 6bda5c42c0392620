package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// The clients of every cell beside the crawler.
const (
	members, memberRate = 20, 20.0 // clients, and requests a second of all of them
	readers, readerRate = 40, 20.0
	// thinking is the mean time that a new reader spends on a page.
	thinking = 2 * time.Second
	// maxReload is the maximum by which the page for people reloads later than Retry-After says.
	maxReload = 4 * time.Second
)

// visits are the visits of new readers: the pages of each visit, and the visits a second.
var visits = []struct {
	pages int
	rate  float64
}{{6, 0.25}, {20, 0.1}}

// client is one client, with the fields of its requests.
type client struct {
	address netip.Addr
	header  http.Header
	keeps   bool // the cookies that it gets
}

func newClient(address netip.Addr, keeps bool) *client {
	return &client{address: address, header: http.Header{"X-Class": {"anonymous"}}, keeps: keeps}
}

// keep makes a cookie part of further requests.
func (c *client) keep(cookie string) {
	if c.keeps && cookie != "" {
		c.header["Cookie"] = []string{cookie}
	}
}

// target returns a random page, which has not been asked for before.
func target(random *rand.Rand) string {
	return "/blame/" + strconv.FormatUint(random.Uint64(), 16) + "/main.go"
}

// request returns a request for a page.
func (c *client) request(random *rand.Rand) *hottype.Request {
	return &hottype.Request{
		Method: http.MethodGet, Host: "git.example", Client: hottype.ClientFromAddr(c.address), Address: c.address,
		Target: target(random), Header: c.header, FromProxy: true,
	}
}

// newMembers returns clients whose gateway has signed them in.
func newMembers() (list []*client) {
	for i := range members {
		c := newClient(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), true)
		c.header.Set("X-User", fmt.Sprint("member", i))
		c.header.Set("X-Class", "member")
		list = append(list, c)
	}
	return list
}

// newReaders returns the readers of a site, each in a network of its own.
func newReaders() (list []*client) {
	for i := range readers {
		list = append(list, newClient(netip.AddrFrom4([4]byte{203, 0, byte(i), 7}), true))
	}
	return list
}

// newCrawler returns the addresses of a crawler, which are anywhere. A share of them keeps cookies.
func newCrawler(random *rand.Rand, addresses int, keeping float64) (list []*client) {
	for i := range addresses {
		list = append(list, newClient(anywhere(random), float64(i) < keeping*float64(addresses)))
	}
	return list
}

// anywhere returns a random address that no member and no returning reader has.
func anywhere(random *rand.Rand) netip.Addr {
	n := random.Uint32()
	return netip.AddrFrom4([4]byte{byte(20 + n>>24%150), byte(n >> 16), byte(n >> 8), byte(1 + n%250)})
}
