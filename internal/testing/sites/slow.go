package sites

import (
	"fmt"
	"slices"
)

func sortThenShuffle(b *builder, names []string) {
	slices.Sort(names)
	b.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
}

// wiki is a quiet site over weeks or months. Most people may want one page. A page goes viral with a few dozen
// requests.
func wiki(b *builder) {
	views := b.between(2000, 4000)
	b.span, b.people = 86400*b.between(20, 180), b.between(400, 1500)
	form := "/wiki/%s"
	b.Param = "path"
	if b.chance(0.4) {
		b.Param = pick(b, "title", "page", "id")
		form = pick(b, "/index.php", "/doku.php", "/wiki") + "?" + b.Param + "=%s"
	}
	t := b.useTopic(form, b.valuesOf(b.between(100, 900)), b.spread(0.3, 0.8))
	b.browse(t, views)
	if b.chance(0.5) {
		wanted := pick(b, "Main_Page", "start", "Hauptseite", "FAQ")
		b.Wanted = append(b.Wanted, t.target(wanted))
		for range views * b.between(50, 150) / 100 {
			b.visit(b.IntN(b.people), b.IntN(b.span), t.target(wanted))
		}
	}
	for range b.IntN(3) {
		value := b.takeRare(t)
		b.Viral = append(b.Viral, t.target(value))
		from, lasting := b.IntN(b.span-1000), b.between(40, 300)
		for range b.between(40, 90) * max(60, lasting) / 60 {
			b.visit(b.IntN(b.people), from+b.IntN(lasting), t.target(value))
		}
	}
	if b.chance(0.5) { // a feed reader
		client, pause := "198.51.100.77", b.between(1800, 7200)
		for second := b.IntN(pause); second < b.span; second += pause {
			b.put(second+b.IntN(20), client, "GET", "/feed.xml", "FeedFetcher/1.0", 200)
		}
		b.Steady = append(b.Steady, client)
	}
	if b.chance(0.3) {
		b.addScanner("192.0.2.66", b.between(60, 300))
	}
	if b.chance(0.4) {
		b.addCrawler(t, "66.249.66.1", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", 200)
	}
}

// balancerProbes is a catalogue of which half of the requests, or more, are probes by a client with the user agent of a
// tool or without one.
func balancerProbes(b *builder) {
	views := b.between(800, 1500)
	b.span, b.people = int(float64(views)/b.spread(2, 15)), b.between(250, 1000)
	t := b.newTopic(b.between(80, 800), b.chance(0.4))
	b.addNoise(b.IntN(3))
	b.browse(t, views)
	for range b.IntN(3) {
		b.burst(t, views)
	}
	all := len(b.requests)
	probes := b.between(1, 3)
	for range probes {
		agent := pick(b, "-", "curl/7.88.1", "Go-http-client/1.1", "Mozilla/5.0", "ELB-HealthChecker/2.0")
		b.addProbe(max(40, int(float64(all)*b.spread(0.2, 1.5))/probes), agent)
	}
	if b.chance(0.4) {
		b.addLoop(t.target(b.valueOf(t)))
	}
}

// robotsOnly is a site that only robots visit.
func robotsOnly(b *builder) {
	b.span, b.assets = b.between(300, 4000), false
	t := b.newTopic(b.between(200, 2000), b.chance(0.4))
	if !b.chance(0.5) {
		b.style = manyBrowsers // they say to be browsers
	}
	b.Fine = append(b.Fine, b.Param)
	b.Param = ""
	for i := range b.between(5, 60) {
		agent := b.agentOf(i)
		if b.style == fewBrowsers {
			agent = fmt.Sprintf("Crawler%d/1.0 (+https://robot%d.example/)", i%5, i%5)
		}
		b.addCrawler(t, fmt.Sprintf("%d.%d.7.%d", 64+i%9, i, 1+i*3%250), agent, b.between(30, 200))
	}
}

// oneScanner is a log in which one client, which tries everything, sent nearly all requests.
func oneScanner(b *builder) {
	b.span, b.people, b.Topic = b.between(60, 4000), b.between(2, 6), "/about"
	b.addScanner(pick(b, "10.1.2.3", "192.168.7.9", "127.0.0.1", "45.155.205.9", "192.0.2.7"), b.between(1200, 4000))
	for n := range b.IntN(b.people) {
		for range b.between(3, 30) {
			b.visit(n, b.IntN(b.span), pick(b, "/", "/about", "/contact", "/prices", "/team"))
		}
	}
}

// attackFromStart is a log of an incident: from the first line on, many clients request one value.
func attackFromStart(b *builder) {
	views := b.between(1200, 2500)
	b.span, b.people = int(float64(views)/b.spread(2, 10)), b.between(500, 3000)
	t := b.newTopic(b.between(80, 1500), b.chance(0.4))
	b.addNoise(b.IntN(3))
	b.browse(t, views)
	value := t.values[len(t.values)-1-b.IntN(20)]
	b.Viral = append(b.Viral, t.target(value))
	share := b.spread(0.25, 0.9)
	n := min(max(int(float64(views)*share/(1-share)), int(6*t.topShare*float64(views)), b.span/2), 6*b.people)
	for range n {
		person, second := b.IntN(b.people), b.IntN(b.span)
		b.visit(person, second, b.page(t, value, person, second))
	}
	b.addOthers(t)
}
