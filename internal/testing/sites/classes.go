package sites

import (
	"fmt"
	"strings"
)

// catalogue is a shop or newspaper: people read pages, and some pages go viral.
func catalogue(b *builder) {
	views := b.between(1500, 3000)
	b.span, b.people = int(float64(views)/b.spread(1, 10)), b.between(300, 3000)
	t := b.newTopic(b.between(80, 1500), b.chance(0.4))
	b.addNoise(b.IntN(4))
	b.browse(t, views)
	for range b.IntN(4) {
		b.burst(t, views)
	}
	b.addOthers(t)
}

// forum has threads with pages, sessions in its links, and people who write.
func forum(b *builder) {
	views := b.between(1500, 3000)
	b.span, b.people = int(float64(views)/b.spread(0.3, 4)), b.between(300, 1500)
	path := pick(b, "/viewtopic.php", "/showthread.php", "/thread", "/forum/topic")
	b.Param = pick(b, "t", "tid", "thread", "topic")
	n := b.between(100, 1200)
	first := b.between(100, 50_000)
	var values []string
	for i := range n {
		values = append(values, fmt.Sprint(first+b.between(0, 3)+4*i))
	}
	b.Shuffle(n, func(i, j int) { values[i], values[j] = values[j], values[i] })
	t := b.useTopic(path+"?"+b.Param+"=%s", values, b.spread(0.4, 1))
	start, step := pick(b, "start", "page", "st", "offset"), pick(b, 1, 10, 15, 20)
	b.Noise = append(b.Noise, start)
	b.noise = append(b.noise, func(int, int) string {
		if at := step * int(b.ExpFloat64()*b.ExpFloat64()*2); at > 0 || b.chance(0.2) {
			return fmt.Sprintf("%s=%d", start, at)
		}
		return ""
	})
	if sid := pick(b, "sid", "s", ""); sid != "" {
		b.Noise = append(b.Noise, sid)
		b.noise = append(b.noise, func(client, _ int) string {
			if client%3 == 0 {
				return ""
			}
			return fmt.Sprintf("%s=%032x", sid, uint64(client)*0x9e3779b97f4a7c15)
		})
	}
	b.browse(t, views)
	for range views / 40 {
		b.put(b.IntN(b.span), b.address(b.IntN(b.people)), "POST", "/posting.php", b.agentOf(b.IntN(b.people)), 302)
	}
	for range b.IntN(3) {
		b.burst(t, views)
	}
	b.addOthers(t)
}

// videoRooms is a video conference with a few rooms of about the same size, in which clients report measures.
func videoRooms(b *builder) {
	b.span, b.people = b.between(300, 1800), b.between(220, 500)
	b.assets = b.assets && b.chance(0.5)
	rooms := b.between(6, 15)
	path := pick(b, "/meet", "/conference", "/api/room", "/call")
	b.Param = pick(b, "room", "r", "conf", "name", "channel")
	t := &topic{form: path + pick(b, "/stats", "/state", "/poll") + "?" + b.Param + "=%s"}
	t.values = b.valuesOf(rooms)
	b.Topic = t.target(t.values[0])
	seq, rtt := pick(b, "seq", "n", "tick"), pick(b, "rtt", "jitter", "loss", "delay")
	b.Noise = []string{seq, rtt}
	for _, v := range t.values {
		b.Popular = append(b.Popular, t.target(v), path+"/join?"+b.Param+"="+v)
	}
	calls := b.between(8, 20)
	for n := range b.people {
		room, second := t.values[b.IntN(rooms)], b.IntN(b.span)
		b.visit(n, second, path+"/join?"+b.Param+"="+room)
		for i := range 1 + int(b.ExpFloat64()*float64(calls)) {
			second += b.between(4, 15)
			b.visit(n, second, fmt.Sprintf("%s&%s=%d&%s=%d", t.target(room), seq, i, rtt, int(20+80*b.ExpFloat64())))
		}
	}
	b.addOthers(t)
}

// adsBehindCDN is a site of landing pages, whose log has the addresses of a CDN.
func adsBehindCDN(b *builder) {
	views := b.between(1500, 3000)
	b.span, b.people = int(float64(views)/b.spread(1, 10)), views*2/3
	b.Proxied = true
	b.assets = b.assets && b.chance(0.3)
	path := pick(b, "/lp", "/go", "/c", "/landing/page", "/click")
	b.Param = pick(b, "offer", "campaign_id", "lp", "ad", "o")
	n := b.between(8, 200)
	t := b.useTopic(path+"?"+b.Param+"=%s", b.valuesOf(n), b.spread(0.3, 0.9))
	for i := range b.between(1, 4) {
		name := pick(b, "sub", "click_id", "tx", "cid", "src_id", "wbraid") + pick(b, "", fmt.Sprint(i+1))
		long := b.chance(0.5)
		b.Noise = append(b.Noise, name)
		reuse := pick(b, 1, 5, 60) // seconds for which a person keeps a value
		b.noise = append(b.noise, func(client, second int) string {
			x := (uint64(client)<<24 + uint64(second/reuse) + uint64(i)) * 0x9e3779b97f4a7c15
			if long {
				return fmt.Sprintf("%s=%016x", name, x)
			}
			return fmt.Sprintf("%s=%d", name, x>>40)
		})
	}
	b.addNoise(b.IntN(3))
	b.browse(t, views)
	for range b.IntN(3) {
		b.burst(t, views)
	}
	// The addresses belong to a few machines, each of which carries requests of all people.
	machines := b.between(4, 40)
	for i := range b.requests {
		b.requests[i].client = fmt.Sprintf("172.%d.%d.%d", pick(b, 64, 69, 70), machines, b.IntN(machines))
	}
	b.ordinary = nil
}

// telemetry is an API to which players report measures, of documents or of nothing.
func telemetry(b *builder) {
	b.span, b.people, b.assets, b.referers = b.between(400, 3000), b.between(250, 600), false, false
	path := pick(b, "/api/v1/event", "/beacon", "/track", "/collect/play")
	documents := b.chance(0.6)
	t := &topic{}
	b.Topic = path
	n := b.between(30, 400)
	if documents {
		b.Param = pick(b, "doc", "video", "vid", "asset", "m")
		t = b.useTopic(path+"?"+b.Param+"=%s", b.valuesOf(n), b.spread(0.3, 1))
	}
	measures := b.measures()
	var names []string
	for name := range measures {
		names = append(names, name)
	}
	sortThenShuffle(b, names)
	b.Noise = names[:b.between(2, 4)]
	report := func(n, second, i int, value string) {
		var query []string
		if documents {
			query = append(query, b.Param+"="+value)
		}
		for _, name := range b.Noise {
			query = append(query, name+"="+measures[name](i))
		}
		b.visit(n, second, path+"?"+strings.Join(query, "&"))
	}
	watch := func(n, second int, value string) {
		for i := range b.between(1, 9) {
			report(n, second, i, value)
			second += b.between(5, 15)
		}
	}
	sessions := b.between(400, 800)
	for range sessions {
		value := ""
		if documents {
			value = b.valueOf(t)
		}
		watch(b.IntN(b.people), b.IntN(b.span), value)
	}
	for range b.IntN(3) * oneIf(documents) {
		value := b.takeRare(t)
		b.Viral = append(b.Viral, t.target(value))
		lasting := b.between(20, 60)
		usual := 5 * float64(sessions) / float64(b.span) * t.topShare * float64(min(60, lasting))
		from := b.IntN(b.span - 150)
		for n := range min(b.people, int(b.spread(3, 8)*usual)+60) {
			second := from + b.IntN(lasting)
			report(n, second, 0, value)
			report(n, second+b.between(5, 15), 1, value)
		}
	}
	if documents {
		b.addOthers(t)
	}
}

// measures returns parameters that report measures, by name. The argument is the number of the report in its session.
func (b *builder) measures() map[string]func(i int) string {
	whole := func(mean float64) func(int) string { // a few are small, and some are very large
		return func(int) string { return fmt.Sprint(int(mean * b.ExpFloat64() * b.ExpFloat64())) }
	}
	return map[string]func(i int) string{
		pick(b, "time", "pos", "t"):           func(i int) string { return fmt.Sprint(10 * i) },
		pick(b, "duration", "dur", "len"):     whole(200),
		pick(b, "progress", "percent"):        func(i int) string { return fmt.Sprint(min(100, i*12)) },
		pick(b, "size", "bytes"):              func(int) string { return fmt.Sprint(int(b.spread(0.5, 1e6))) },
		pick(b, "offset", "from"):             func(i int) string { return fmt.Sprint(i * 65536) },
		pick(b, "lat", "x"):                   func(int) string { return fmt.Sprintf("%.4f", 48+2*b.NormFloat64()) },
		pick(b, "errors", "dropped", "stall"): whole(1.2),
	}
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}
