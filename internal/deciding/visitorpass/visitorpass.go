// Package visitorpass issues and recognises passes: signed cookies by which a limiter recognises a client, although it
// keeps no data about clients.
//
// A visitor pass is set with a denial, and holds the time of its issue. A client that returns it keeps cookies and has
// waited, as browsers do and most crawlers do not. It consists of the second of its issue and a signature (HMAC-SHA256)
// over that second, the network of the client (/24 or /48) and the namespace. It holds no random bytes, so all clients
// of a network that are denied in the same second get the same pass, and a pass identifies no person. It is recognised
// for Life, from its own network only.
//
// A class pass names a class that an upstream has granted to its holder. Its signature covers the name and no network,
// because people change networks, and it is recognised for ClassLife only.
//
// All limiters of a namespace have the same secret for each day. The secret of the day of issue signs a pass, so that a
// secret is of no use two days later. The package neither makes nor stores secrets: its callers call SetSecret. It does
// no I/O and reads no clock.
package visitorpass

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Life is the time for which a visitor pass is recognised, and ClassLife the time for which a class pass is.
	Life, ClassLife = 24 * time.Hour, time.Hour
	// maxAhead is the maximum by which the clock of the limiter that issued a pass may be ahead.
	maxAhead = 2 * time.Second
	// maxClass is the maximum length of the name of a class.
	maxClass = 128

	secondSize, signatureSize = 4, 16
	// encodedSize is the length of a second and a signature in base64.
	encodedSize = 27
)

// The purposes of a signature, so that a pass of one kind is never valid as another.
const (
	purposeVisit = 'v'
	purposeClass = 'c'
)

// encoding is strict so that each pass has one spelling.
var encoding = base64.RawURLEncoding.Strict()

// Passes issues and recognises the passes of a namespace. Any number of goroutines may use it. A nil Passes, and one
// without secrets, issues and recognises no pass.
type Passes struct {
	namespace string

	mu   sync.Mutex // guards changes of days
	days atomic.Pointer[[]day]
}

// New returns Passes without secrets.
func New(namespace string) *Passes {
	p := &Passes{namespace: namespace}
	p.days.Store(new([]day))
	return p
}

// Issue returns a new visitor pass of a client as "NAME=VALUE" of a cookie, or "" if there is no secret for the day or
// the address is not valid. The name ends in a hash of the client's network, so that a client that changes between IPv4
// and IPv6 keeps a pass for both.
func (p *Passes) Issue(now time.Time, client netip.Addr) string {
	n, ok := networkOf(client)
	if !ok {
		return ""
	}
	name := n.cookie()
	return p.issue(now, purposeVisit, string(name[:]), string(n[:]))
}

// Age returns the time since the beginning of the second in which the client's own visitor pass was issued, and reports
// whether cookies hold such a pass that is still recognised. cookies is one line of the field Cookie, or several lines
// joined by "; ". Age verifies at most two cookies: the first one named with "__Host-" and the first one without.
func (p *Passes) Age(now time.Time, cookies string, client netip.Addr) (age time.Duration, ok bool) {
	n, ok := networkOf(client)
	if p == nil || !ok {
		return 0, false
	}
	name := n.cookie()
	for _, value := range findCookies(cookies, string(name[:])) {
		if age, ok = p.verify(now, Life, purposeVisit, string(n[:]), value); ok {
			break
		}
	}
	return age, ok
}

// Grant returns a new pass of a class as "NAME=VALUE" of a cookie, or "" if there is no secret for the day. Names of
// classes have the form [a-z][a-z0-9_-]*.
func (p *Passes) Grant(now time.Time, class string) string {
	if class == "" || len(class) > maxClass {
		return ""
	}
	return p.issue(now, purposeClass, classCookie+class+".", class)
}

// Granted returns the class of the class pass in cookies, and reports whether they hold a class pass that is still
// recognised. It reads cookies as Age does.
func (p *Passes) Granted(now time.Time, cookies string) (class string, ok bool) {
	if p == nil {
		return "", false
	}
	for _, value := range findCookies(cookies, classCookie) {
		class, signature, _ := strings.Cut(value, ".")
		if _, ok := p.verify(now, ClassLife, purposeClass, class, signature); ok {
			return class, true
		}
	}
	return "", false
}

// issue returns prefix and the signed second of now.
func (p *Passes) issue(now time.Time, purpose byte, prefix, subject string) string {
	if p == nil {
		return ""
	}
	signers := p.signersOf(Day(now))
	if len(signers) == 0 {
		return ""
	}
	var signed [secondSize + signatureSize]byte
	binary.BigEndian.PutUint32(signed[:], uint32(now.Unix()))
	signature := signers[0].sign(purpose, signed[:secondSize], subject, p.namespace)
	copy(signed[secondSize:], signature[:])
	var text [encodedSize]byte
	encoding.Encode(text[:], signed[:])
	return prefix + string(text[:])
}

// verify returns the age of the signed second in value. It computes a signature only if everything else is right.
func (p *Passes) verify(now time.Time, life time.Duration, purpose byte, subject, value string) (time.Duration, bool) {
	var signed [secondSize + signatureSize]byte
	if len(value) != encodedSize {
		return 0, false
	}
	if _, err := encoding.Decode(signed[:], []byte(value)); err != nil {
		return 0, false
	}
	issued := time.Unix(int64(binary.BigEndian.Uint32(signed[:])), 0)
	age := now.Sub(issued)
	if age < -maxAhead || age >= life {
		return 0, false
	}
	for _, s := range p.signersOf(Day(issued)) {
		signature := s.sign(purpose, signed[:secondSize], subject, p.namespace)
		if hmac.Equal(signature[:], signed[secondSize:]) {
			return max(age, 0), true
		}
	}
	return 0, false
}

// network is the /24 or the /48 of a client, in the form of IPv6.
type network [16]byte

func networkOf(client netip.Addr) (network, bool) {
	bits := 24
	if client = client.Unmap(); client.Is6() {
		bits = 48
	}
	prefix, err := client.Prefix(bits)
	if err != nil || !client.IsValid() {
		return network{}, false
	}
	return prefix.Addr().As16(), true
}

// cookie returns the name of the cookie of the network's passes, and "=". The hash in it is FNV-1a, folded to 16 bits.
func (n network) cookie() (name [len(cookiePrefix) + 5]byte) {
	h := uint32(2166136261)
	for _, b := range n {
		h = (h ^ uint32(b)) * 16777619
	}
	h ^= h >> 16
	copy(name[:], cookiePrefix)
	for i := range 4 {
		name[len(cookiePrefix)+i] = hexDigits[h>>(12-4*i)&15]
	}
	name[len(name)-1] = '='
	return name
}
