package edge

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"

	"github.com/hotparam/pipeline/internal/rules"
)

// versionDigits is how many hex digits of a hash a version of the rules has.
const versionDigits = 16

// Nginx is the configuration by which nginx makes the keys of plain targets itself, and the version of the rules that
// it is made from: a hash of the text. nginx sends the version with each poll, and asks for everything if the rules of
// the limiter have another one.
//
// $hotparam_key is the key of a request: "?" if nginx has to ask, "" if no rule counts the request.
// $hotparam_exempt is 1 for clients that no limit applies to.
func Nginx(set *rules.Set) (text, version string) {
	var b strings.Builder
	plain := set.Plain()
	subject := "$request_uri"
	switch {
	case plain.Methods && plain.Hosts:
		subject = `"$request_method $http_host $request_uri"`
	case plain.Methods:
		subject = `"$request_method $request_uri"`
	case plain.Hosts:
		subject = `"$http_host $request_uri"`
	}
	b.WriteString("map " + subject + " $hotparam_key {\n    default \"" + rules.AskPlain + "\";\n")
	for _, l := range plain.Lines {
		b.WriteString(`    "~` + l.Pattern + `" "` + l.Key + "\";\n")
	}
	b.WriteString("}\ngeo $hotparam_exempt {\n    default \"\";\n")
	for _, p := range set.IP.Exempt {
		b.WriteString("    " + exempt(p).String() + " 1;\n")
	}
	b.WriteString("}\n")
	sum := sha256.Sum256([]byte(b.String()))
	version = hex.EncodeToString(sum[:])[:versionDigits]
	b.WriteString("geo $hotparam_rules {\n    default " + version + ";\n}\n")
	return b.String(), version
}

// exempt is a network in the form of clients: an IPv6 client is a /64.
func exempt(p netip.Prefix) netip.Prefix {
	if p.Addr().Is6() && p.Bits() > 64 {
		p = netip.PrefixFrom(p.Addr(), 64).Masked()
	}
	return p
}
