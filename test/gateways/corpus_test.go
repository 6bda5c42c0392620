package gateways

import (
	"fmt"
	"strings"
)

// sent is a request byte for byte, with {id} in place of the topic.
type sent struct{ name, text string }

// with returns the request for one topic.
func (s sent) with(id string) string { return strings.ReplaceAll(s.text, "{id}", id) }

// limited reports whether the request names a topic, so that it is refused if the topic is blocked.
func (s sent) limited() bool { return strings.Contains(s.text, "{id}") }

// get returns a GET of a target of a host with further lines, which end in \r\n.
func get(target, host, lines string) string {
	return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + lines + "Connection: close\r\n\r\n"
}

const topic = "/topic?id={id}"

// corpus returns requests that clients may send: methods, hosts, targets, fields, and all of them short and long.
func corpus() (list []sent) {
	add := func(name, text string) { list = append(list, sent{name, text}) }
	for _, m := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PURGE", "get"} {
		add("method "+m, strings.Replace(get(topic, "news.example", ""), "GET", m, 1))
	}
	for _, n := range []int{0, 10, 100_000} {
		add(fmt.Sprintf("body of %d", n), strings.Replace(get(topic, "news.example",
			fmt.Sprintf("Content-Length: %d\r\n", n)), "GET", "POST", 1)+strings.Repeat("x", n))
	}
	add("chunked body", strings.Replace(get(topic, "news.example", "Transfer-Encoding: chunked\r\n"), "GET", "POST", 1)+
		"3\r\nabc\r\n0\r\n\r\n")
	add("expect", strings.Replace(get(topic, "news.example", "Expect: 100-continue\r\nContent-Length: 0\r\n"), "GET",
		"PUT", 1))
	add("HTTP/1.0 without Host", "GET "+topic+" HTTP/1.0\r\n\r\n")
	add("HTTP/1.0", "GET "+topic+" HTTP/1.0\r\nHost: news.example\r\n\r\n")
	add("HTTP/1.1 without Host", "GET "+topic+" HTTP/1.1\r\nConnection: close\r\n\r\n")
	add("two Hosts", "GET "+topic+" HTTP/1.1\r\nHost: news.example\r\nHost: b.example\r\nConnection: close\r\n\r\n")
	add("line feeds", "GET "+topic+" HTTP/1.1\nHost: news.example\nConnection: close\n\n")
	for _, host := range []string{
		"", `a"b`, "ä.de", "u@h", "u:p@h:80", "a_b", "a,b", "a b", "a|b", "a\\b", "a<b>", "a{b}", "a`b", "a'b", "a%b",
		"a%00b", "[::1]", "[::1]:8080", "::1", "news.example:8080", "news.example:x", "NEWS.EXAMPLE", "news.example.",
		".", "..", "a/b", "a?b", "a#b", "a;b", "a=b", "a$b", "\xff", "a\x01b", "a\x7fb", "a\tb", "127.0.0.1", "-",
		"*", "http://x",
	} {
		add(fmt.Sprintf("host %q", host), get(topic, host, ""))
	}
	for _, target := range []string{
		topic + "&x=%zz", topic + "&x=%", topic + "&x=|^\"<>`{}\\[]", topic + "&x=\xff\xe4", topic + "&x=%ff%00%0a",
		topic + "#f", topic + "&&", "http://news.example" + topic, "http://other.example" + topic, "//topic",
		"/?id={id}", "http://news.example/?id={id}", "http://news.example?id={id}", "http://news.example?id={id}&x=/",
		"/%zz", "/%", "/a|b", "/\xe4", "/%00", "/a%0ab", "/a;b=c", "/..", "/../..", "/.", "//", "/a//b/",
		"http://news.example", "?x=1", "http://news.example?x=1", "topic", "/\x01", "/\x7f", "/a b", "*",
		"/" + strings.Repeat("a/", 500),
	} {
		add(fmt.Sprintf("target %.40q", target), get(target, "news.example", ""))
	}
	add("OPTIONS *", strings.Replace(get("*", "news.example", ""), "GET", "OPTIONS", 1))
	for _, line := range []string{
		"X-A: a\x01b", "X-A: a\x7fb", "X-A: a\x00b", "X-A: a\tb", "X-A: a\xffb", "X-A: ä", "X-A:", "X-A: a\rb",
		"X-A: a\r\n b", "X A: b", "X@A: b", "X_A: b", ": b", "X-A : b", "noColon", "Ä: b", "X(A): b", "X-A/B: c",
		"User-Agent: a\x01b", "User-Agent: \xff", "Cookie: a=\x01", "Accept: \x02", "Accept: text/html",
		"Accept: */*\x7f", "Authorization: \x01", "Content-Type: \x01", "Referer: http://ä/", "X-Request-ID: \x01",
		"X-Forwarded-For: \x01", "X-Original-Host: other", "X-Original-Host: \x01", "X-Original-URL: http://x/free",
		"Range: bytes=0-1", "If-None-Match: \"x\"", "TE: trailers", "Trailer: X-A", "Upgrade: websocket",
		"Content-Length: x", "Content-Length: -1", "Content-Length: 0\r\nContent-Length: 0",
		"Transfer-Encoding: gzip", "Transfer-Encoding: identity", "Expect: nothing", "Keep-Alive: timeout=5",
		"Proxy-Connection: keep-alive", "Proxy-Authorization: Bearer x", "Via: 1.1 x", "Max-Forwards: 0",
		"HTTP2-Settings: AAMAAABkAAQ",
	} {
		add(fmt.Sprintf("field %q", line), get(topic, "news.example", line+"\r\n"))
	}
	return append(list, sizes()...)
}

// sizes returns requests of 1 to 64 KiB: in one field, in many, in the host, in the target, and in two places.
func sizes() (list []sent) {
	for _, n := range []int{
		1 << 10, 2000, 4 << 10, 7900, 8 << 10, 10_000, 12 << 10, 13_000, 14_000, 14_500, 14_800, 15_000, 15_200,
		15_300, 15_500, 16_000, 16 << 10, 20_000, 24 << 10, 30_000, 32_000, 33_000, 40 << 10, 48 << 10, 56 << 10,
		60_000, 61_000, 62 << 10, 64_000, 65_000,
	} {
		pad := func(n int) string { return strings.Repeat("p", max(n, 1)) }
		many := strings.Builder{}
		for i := 0; many.Len() < n; i++ {
			fmt.Fprintf(&many, "X-Pad-%d: %s\r\n", i, pad(500))
		}
		short := strings.Builder{}
		for i := 0; short.Len() < n && i < 90; i++ {
			fmt.Fprintf(&short, "X%d: p\r\n", i)
		}
		for _, s := range []sent{
			{"one field", get(topic, "news.example", "X-Pad: "+pad(n)+"\r\n")},
			{"many fields", get(topic, "news.example", many.String())},
			{"User-Agent", get(topic, "news.example", "User-Agent: "+pad(n)+"\r\n")},
			{"X-Forwarded-For", get(topic, "news.example", "X-Forwarded-For: "+pad(n)+"\r\n")},
			{"Cookie", get(topic, "news.example", "Cookie: a="+pad(n)+"\r\n"+short.String())},
			{"Accept", get(topic, "news.example", "Accept: "+pad(n)+"\r\n")},
			{"host", get(topic, pad(n), "")},
			{"host of 2000 and a field", get(topic, pad(2000), "X-Pad: "+pad(n-2200)+"\r\n")},
			{"host of half and a field of half", get(topic, pad(n/2), "X-Pad: "+pad(n/2)+"\r\n")},
			{"target", get(topic+"&x="+pad(n), "news.example", "")},
			{"path", get("/"+pad(n), "news.example", "")},
			{"target of half and a host of half", get(topic+"&x="+pad(n/2), pad(n/2), "")},
			{"target of half and a field of half", get(topic+"&x="+pad(n/2), "news.example",
				"X-Pad: "+pad(n/2)+"\r\n")},
		} {
			list = append(list, sent{fmt.Sprintf("%d bytes, %s", n, s.name), s.text})
		}
	}
	return list
}
