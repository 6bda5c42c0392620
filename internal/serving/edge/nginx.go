package edge

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"

	"github.com/hotparam/pipeline/internal/rules"
)

// versionDigits is the number of hex digits of a version of the rules.
const versionDigits = 16

// Version returns the version of the rules in the feed and in the files by which gateways make keys: a hash of the
// contents of these files. A gateway whose file has another version than the feed asks about everything.
func Version(set *rules.Set) string {
	sum := sha256.Sum256([]byte(nginxKeys(set) + haproxyKeys(set)))
	return hex.EncodeToString(sum[:])[:versionDigits]
}

// Nginx returns the configuration by which nginx makes the keys of plain targets itself.
//
// $hotparam_key is the key of a request, "?" if nginx has to ask, or "" if no rule counts the request. $hotparam_exempt
// is 1 for clients to which no limit applies.
func Nginx(set *rules.Set) string {
	return nginxKeys(set) + "geo $hotparam_rules {\n    default " + Version(set) + ";\n}\n"
}

func nginxKeys(set *rules.Set) string {
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
		b.WriteString(`    "~^` + l.Method + l.Host + l.Target + `" "` + l.Key + "\";\n")
	}
	b.WriteString("}\ngeo $hotparam_exempt {\n    default \"\";\n")
	for _, p := range set.IP.Exempt {
		b.WriteString("    " + exemptNetwork(p).String() + " 1;\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// exemptNetwork returns a network in the form of clients: an IPv6 client is a /64.
func exemptNetwork(p netip.Prefix) netip.Prefix {
	if p.Addr().Is6() && p.Bits() > 64 {
		p = netip.PrefixFrom(p.Addr(), 64).Masked()
	}
	return p
}
