package sites

import (
	"fmt"
	"strings"
)

// addLoop adds a client that requests one target again and again, at random intervals.
func (b *builder) addLoop(target string) {
	client, agent := fmt.Sprintf("198.51.100.%d", b.between(1, 250)), b.agentOf(7)
	n := b.between(60, 400)
	from, lasting := 0, b.span
	if b.chance(0.5) {
		lasting = max(b.span/b.between(2, 20), 20)
		from = b.IntN(b.span - lasting + 1)
	}
	for range n {
		b.put(from+b.IntN(lasting), client, "GET", target, agent, 200)
	}
	b.Loops = append(b.Loops, client)
}

// addScanner adds a client that requests pages that do not exist, at the given address.
func (b *builder) addScanner(client string, n int) {
	agent := pick(b, b.agentOf(3), "-", "Mozilla/5.0 zgrab/0.x", "python-requests/2.31")
	refused := pick(b, 404, 404, 403, 400)
	from, rate := 0, b.spread(1, 60)
	lasting := min(b.span, max(5, int(float64(n)/rate)))
	from = b.IntN(b.span - lasting + 1)
	names := strings.Fields(".env .git/config wp-login.php admin phpinfo.php backup.zip config.json shell.php db.sql " +
		"id_rsa server-status actuator/env api/v1/users login.do cgi-bin/test console")
	for i := range n {
		target := fmt.Sprintf("/%s/%s", pick(b, words...), names[i%len(names)])
		if b.chance(0.4) {
			target += fmt.Sprintf("?%s=%s", pick(b, "id", "q", "file", "cmd", "page"),
				pick(b, "../../etc/passwd", "1%27+or+1=1", fmt.Sprint(b.IntN(9999)), "%3Cscript%3E"))
		}
		status := refused
		if b.chance(0.15) {
			status = pick(b, 200, 301, 500)
		}
		b.put(from+i*lasting/n, client, pick(b, "GET", "GET", "GET", "POST"), target, agent, status)
	}
	b.Scanners = append(b.Scanners, client)
}

// addProbe adds a balancer or monitor that requests one page at a steady interval, n times in all.
func (b *builder) addProbe(n int, agent string) {
	client := pick(b, fmt.Sprintf("10.%d.0.%d", b.IntN(200), b.between(1, 250)),
		fmt.Sprintf("203.0.113.%d", b.between(1, 250)), fmt.Sprintf("172.20.%d.4", b.IntN(250)))
	method, target := pick(b, "HEAD", "HEAD", "GET"), pick(b, "/", "/", "/health", "/ping", "/index.html")
	interval := float64(b.span) / float64(n)
	for i := range n {
		second := int((float64(i) + 0.3*b.Float64()) * interval)
		b.put(min(second, b.span-1), client, method, target, agent, 200)
	}
	b.Probes = append(b.Probes, client)
}

// addCrawler adds a robot that requests the pages of a topic one after the other.
func (b *builder) addCrawler(t *topic, client, agent string, n int) {
	start, pause := b.IntN(len(t.values)), b.spread(0.3, float64(b.span)/float64(n))
	at := b.Float64() * (float64(b.span) - pause*float64(n))
	for i := range n {
		status := 200
		if b.chance(0.02) {
			status = 404
		}
		b.put(int(at), client, "GET", t.target(t.values[(start+i)%len(t.values)]), agent, status)
		at += pause * (0.5 + b.Float64())
		if int(at) >= b.span {
			return
		}
	}
}

// addOthers adds what any site may have beside its people.
func (b *builder) addOthers(t *topic) {
	if b.chance(0.4) {
		b.addLoop(t.target(b.valueOf(t)))
	}
	if b.chance(0.3) {
		b.addScanner(pick(b, "192.0.2.66", "10.9.8.7", "45.155.205.9"), b.between(60, 500))
	}
	if b.chance(0.25) {
		b.addProbe(b.between(60, 600), "ELB-HealthChecker/2.0")
	}
	if b.chance(0.3) {
		b.addCrawler(t, "66.249.66.1", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
			b.between(50, 300))
	}
}

// addNoise adds n parameters that do not decide which page is requested.
func (b *builder) addNoise(n int) {
	type kind struct {
		names string
		value func(client, second int) string
	}
	lasting, shift := pick(b, 1, 30, 600), b.Uint64()|1
	perVisit := func(client, second int) uint64 { // the same for requests of one client that are close to each other
		return (uint64(client)<<32 + uint64(second/lasting)) * 0x9e3779b97f4a7c15 * shift
	}
	kinds := []kind{
		{"cb _r rnd z nocache", func(int, int) string { return fmt.Sprint(b.Int64N(1 << 50)) }},
		{"sid token visitor u s", func(client, _ int) string { return fmt.Sprintf("%x", perVisit(client, 0)) }},
		{"utm_source utm_campaign", func(int, int) string { return fmt.Sprint("c", b.IntN(12)) }},
		{"gclid fbclid msclkid", func(client, second int) string { return fmt.Sprintf("Cj%x", perVisit(client, second)) }},
		{"trk xid h req ref_id", func(client, second int) string {
			return fmt.Sprintf("%012x", perVisit(client, second)>>16)
		}},
		{"ts t _t", func(_, second int) string { return fmt.Sprint(began + second) }},
		{"lang theme v", func(client, _ int) string { return []string{"en", "de", "fr"}[client%3] }},
		{"x y w", func(int, int) string { return fmt.Sprintf("%.9f", b.Float64()) }},
	}
	b.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, k := range kinds[:min(n, len(kinds))] {
		name, share := pick(b, strings.Fields(k.names)...), pick(b, 1, 1, 0.5)
		if name == b.Param {
			continue
		}
		if !strings.Contains(k.names, "lang") { // a few values in a key do no harm
			b.Noise = append(b.Noise, name)
		}
		b.noise = append(b.noise, func(client, second int) string {
			if !b.chance(share) {
				return ""
			}
			return name + "=" + k.value(client, second)
		})
	}
}
