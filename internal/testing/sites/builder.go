package sites

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

type request struct {
	second                                 int
	client, method, target, agent, referer string
	status                                 int
}

// builder collects the requests of a site.
type builder struct {
	*rand.Rand
	Truth
	span     int // seconds
	people   int
	shared   int // addresses that a fifteenth of the people share
	assets   bool
	referers bool
	style    agentStyle
	noise    []func(client int, second int) string // parameters that are appended to a page of the topic
	requests []request
	ordinary map[string][]int // the seconds of the requests of ordinary clients, by address
}

// agentStyle is the content of the field of user agents.
type agentStyle int

const (
	manyBrowsers agentStyle = iota
	fewBrowsers
	noAgents
	agentStyles
)

func (b *builder) between(low, high int) int { return low + b.IntN(high-low+1) }

func (b *builder) chance(p float64) bool { return b.Float64() < p }

// spread returns a number between low and high, of which each order of magnitude is as likely as the others.
func (b *builder) spread(low, high float64) float64 { return low * math.Pow(high/low, b.Float64()) }

func pick[T any](b *builder, all ...T) T { return all[b.IntN(len(all))] }

// address returns the public address of person n.
func (b *builder) address(n int) string {
	if b.shared > 0 && n%15 == 0 {
		return fmt.Sprintf("90.1.2.%d", n/15%b.shared)
	}
	return fmt.Sprintf("%d.%d.%d.%d", 81+n>>16, n>>8&255, (n*37)&255, 1+n%250)
}

func (b *builder) agentOf(n int) string {
	switch b.style {
	case noAgents:
		return "-"
	case fewBrowsers:
		return fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64) Firefox/%d.0", 110+n%4)
	default:
		return fmt.Sprintf("Mozilla/5.0 (Windows NT %d.0; rv:%d) Chrome/%d.0", 6+n%5, n%11, 90+n%23)
	}
}

func (b *builder) put(second int, client, method, target, agent string, status int) {
	b.requests = append(b.requests, request{second, client, method, target, agent, "-", status})
}

// visit is a request of person n, with the assets that the page loads.
func (b *builder) visit(n, second int, target string) {
	if second >= b.span {
		return
	}
	client, agent, referer := b.address(n), b.agentOf(n), "-"
	if b.referers && b.chance(0.8) {
		referer = "https://site.example/"
	}
	get := func(second int, target, referer string) {
		b.requests = append(b.requests, request{second, client, "GET", target, agent, referer, 200})
		b.ordinary[client] = append(b.ordinary[client], second)
	}
	get(second, target, referer)
	if b.assets && b.chance(0.5) {
		page := referer
		if b.referers {
			page = "https://site.example" + target
		}
		for i := range b.between(1, 3) {
			file := []string{"app.css", "app.js", "logo.png"}[i]
			get(min(second+b.IntN(2), b.span-1), "/static/"+file, page)
		}
	}
}

// topic is a parameter whose values are pages.
type topic struct {
	form     string // of a target, with %s for the value
	values   []string
	shares   []float64 // cumulated
	topShare float64
}

func (t *topic) target(value string) string { return fmt.Sprintf(t.form, value) }

// newTopic returns a topic with n values of which the share decreases by Zipf's law with a random exponent. It is a
// query parameter, or a segment of the path if inPath is true.
func (b *builder) newTopic(n int, inPath bool) *topic {
	path := pick(b, "/item", "/news", "/product", "/p", "/article", "/shop/view", "/show.php", "/story", "/de/doc")
	name := pick(b, "id", "sku", "nr", "item", "a", "key", "slug", "pid", "article_id", "g")
	form := path + "?" + name + "=%s"
	b.Param = name
	if inPath {
		form, b.Param = strings.TrimSuffix(path, ".php")+"/%s", "path"
	}
	return b.useTopic(form, b.valuesOf(n), b.spread(0.3, 1.1))
}

// useTopic sets the topic of the site. The shares of its values decrease by Zipf's law.
func (b *builder) useTopic(form string, values []string, exponent float64) *topic {
	t := &topic{form: form, values: values, shares: zipf(len(values), exponent)}
	t.topShare, b.Topic = t.shares[0], t.target(values[0])
	for _, v := range values[:min(len(values), 40)] {
		b.Popular = append(b.Popular, t.target(v))
	}
	return t
}

func zipf(n int, exponent float64) (cumulated []float64) {
	sum := 0.0
	for i := range n {
		sum += math.Pow(float64(i+1), -exponent)
		cumulated = append(cumulated, sum)
	}
	for i := range cumulated {
		cumulated[i] /= sum
	}
	return cumulated
}

var words = strings.Fields("amber birch cedar delta ember flint grove haven iris jade karma lotus maple north olive pearl " +
	"quartz river stone tulip umber viola willow xenon yarrow zephyr")

// valuesOf returns n different values of one style.
func (b *builder) valuesOf(n int) []string {
	style, first, step := b.IntN(4), b.between(1, 90_000), b.between(1, 9)
	var all []string
	for i := range n {
		switch style {
		case 0:
			all = append(all, fmt.Sprint(first+i*step))
		case 1:
			all = append(all, fmt.Sprintf("%s-%s-%s", words[i%26], words[i/26%26], words[(i/676+i*7)%26]))
		case 2:
			all = append(all, fmt.Sprintf("%x", 0x10000+uint32(i*step+first)*2654435761>>4))
		default:
			all = append(all, fmt.Sprintf("%c%c%05d", 'A'+i%26, 'A'+i/26%26, first+i))
		}
	}
	b.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return slices.Compact(all)
}

func (b *builder) valueOf(t *topic) string {
	x := b.Float64()
	i, _ := slices.BinarySearch(t.shares, x)
	return t.values[min(i, len(t.values)-1)]
}

// page returns the target of a value with the noise of the site.
func (b *builder) page(t *topic, value string, n, second int) string {
	target := t.target(value)
	for _, noise := range b.noise {
		if text := noise(n, second); text != "" {
			if strings.Contains(target, "?") {
				target += "&" + text
			} else {
				target += "?" + text
			}
		}
	}
	return target
}

// browse adds people who read pages of the topic, about views in all, in sessions, and other pages between.
func (b *builder) browse(t *topic, views int) {
	for views > 0 {
		n, second := b.IntN(b.people), b.IntN(b.span)
		pages := 1 + int(b.ExpFloat64()*3)
		if b.chance(0.01) {
			pages *= 6
		}
		pause := b.spread(2, 40)
		for range min(pages, views) {
			views--
			switch {
			case b.chance(0.06):
				b.visit(n, second, "/")
			case b.chance(0.03):
				b.visit(n, second, fmt.Sprintf("/search?q=%s+%s", pick(b, words...), pick(b, words...)))
			default:
				b.visit(n, second, b.page(t, b.valueOf(t), n, second))
			}
			second += 1 + int(pause*b.ExpFloat64())
		}
	}
	b.Fine = append(b.Fine, "q")
}

// takeRare removes a rare value from a topic and returns it.
func (b *builder) takeRare(t *topic) string {
	last := len(t.values) - 1
	value := t.values[last]
	t.values, t.shares = t.values[:last], t.shares[:last]
	return value
}

// burst makes a rare value viral: many people request it within a short time, more often than any other value.
func (b *builder) burst(t *topic, views int) {
	value := b.takeRare(t)
	b.Viral = append(b.Viral, t.target(value))
	usual := float64(views) / float64(b.span) * t.topShare
	rate, lasting := b.spread(3, 8)*usual+b.spread(0.7, 8), b.between(25, 120)
	if rate*float64(min(lasting, 60)) < 40 {
		rate = 40 / float64(min(lasting, 60))
	}
	from := b.IntN(max(1, b.span-lasting))
	for range int(rate * float64(lasting)) {
		n, second := b.IntN(b.people), from+b.IntN(lasting)
		b.visit(n, second, b.page(t, value, n, second))
	}
}
