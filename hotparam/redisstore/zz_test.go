package redisstore
import ("testing";"context";"time";"os";"strings";"regexp";"strconv";"net/netip";"github.com/redis/go-redis/v9";"github.com/hotparam/pipeline/hotparam";"github.com/hotparam/pipeline/hotparam/limit";"github.com/hotparam/pipeline/hotparam/redisstore/redistest")
func TestZ(t *testing.T) { s := redistest.Start(t); 
	c, _ := Open(Config{Addrs: []string{s.Addr()}, PoolSize: 64}); 
	cl := hotparam.ClientFrom(netip.MustParseAddr("192.0.2.7"))
	mk := func(lim int64) []limit.Charge { return []limit.Charge{{Subject: limit.Subject{Space:"hot",Name:"topic?id=1"}, Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: lim, Window: time.Second, Burst: lim}, Cost: 1},
		{Subject: limit.Subject{Space:"ip_fixed",Client: cl}, Spec: limit.Spec{Algorithm: limit.FixedWindow, Limit: lim, Window: time.Second}, Cost: 1},
		{Subject: limit.Subject{Space:"ip_sliding",Client: cl}, Spec: limit.Spec{Algorithm: limit.SlidingWindow, Limit: lim, Window: time.Minute}, Cost: 1}} }
	re := regexp.MustCompile(`evalsha:calls=\d+,usec=\d+,usec_per_call=([0-9.]+)`)
	best := map[string]float64{}
	files := strings.Split(os.Getenv("ZZ_SCRIPTS"), ",")
	order := []string{}
	for range 6 {
	for _, file := range files {
	text, _ := os.ReadFile(file)
	l := &Limiter{c: c, decide: redis.NewScript(string(text))}
	l.Take(context.Background(), time.Now(), mk(1000000), make([]limit.Result, 3))
	for _, n := range []int{1,3} { for _, lim := range []int64{1000000, 1} {
	c.rdb.FlushAll(context.Background())
	c.rdb.ConfigResetStat(context.Background())
	ch := mk(lim)[:n]
	rs := make([]limit.Result, n); for range 4000 { if _, err := l.Take(context.Background(), time.Now(), ch, rs); err != nil { t.Error(err); return } }
	info, _ := c.rdb.Info(context.Background(), "commandstats").Result()
	v, _ := strconv.ParseFloat(re.FindStringSubmatch(info)[1], 64)
	k := file + " " + strconv.Itoa(n) + " " + strconv.FormatInt(lim, 10)
	if b, ok := best[k]; !ok { order = append(order, k); best[k]=v } else if v < b { best[k] = v }
	}}
	}}
	for _, k := range order { t.Log(k, best[k]) }
}
