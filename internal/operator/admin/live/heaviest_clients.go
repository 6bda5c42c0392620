package live

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/past"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// HeavyClient is a client with many requests, denied or not, or a network whose clients have many requests together.
type HeavyClient struct {
	Client string `json:"client"`
	// Kind is the field of an override that names it: client, cidr, or "" for a name, which no override can name.
	Kind    string `json:"kind"`
	Network string `json:"network"` // /24 or /48; "" for a network, and for a client without an address
	Class   string `json:"class"`   // of its last sampled request; "" without a class
	Clients int    `json:"clients"` // number of sampled clients of a network; 1 for a client
	// Requests is estimated from the samples of the limiters. It is null while no limiter has reported twice.
	Requests *float64      `json:"requests_per_second"`
	Share    float64       `json:"share"` // of all requests
	Override *changes.View `json:"override"`
	sampled  uint64
}

// sampledClient is a client with the class of its requests.
type sampledClient struct{ client, class string }

// sampledShare is a client's share of the requests, and the number of its samples.
type sampledShare struct {
	share float64
	n     uint64
}

// Traffic returns a sample of the last minute's requests, which joins the samples of the running limiters. Each limiter
// is weighted by its rate. The sum of all shares is 1.
func (s *Service) Traffic(now time.Time) (t past.Traffic) {
	t.Requests = s.Requests(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	all := 0.0
	for _, in := range s.rates.instances {
		var n uint64
		for _, c := range in.last.Clients {
			n += c.N
		}
		if n == 0 || now.Sub(in.heard) > quietAfter {
			continue
		}
		pace := max(in.speed.Allowed+in.speed.Served, 0.01) // a quiet limiter counts a little
		for _, d := range in.speed.Denied {
			pace += d
		}
		t.Sampled, t.Limiters, all = t.Sampled+n, t.Limiters+1, all+pace
		for _, c := range in.last.Clients {
			add := func(requested string, samples uint64) {
				if samples > 0 {
					t.Samples = append(t.Samples, past.ClientSample{Client: c.Client, Class: c.Class,
						Requested: requested, N: samples, Share: pace * float64(samples) / float64(n)})
				}
			}
			rest := c.N
			for _, r := range c.Requests {
				samples := min(r.N, rest)
				rest -= samples
				add(r.Name, samples)
			}
			add("", rest)
		}
	}
	for i := range t.Samples {
		t.Samples[i].Share = min(1, t.Samples[i].Share/all)
	}
	return t
}

// addSamples adds up the samples by client and class.
func addSamples(t *past.Traffic) map[sampledClient]sampledShare {
	shares := map[sampledClient]sampledShare{}
	for _, one := range t.Samples {
		of := sampledClient{one.Client, one.Class}
		was := shares[of]
		shares[of] = sampledShare{was.share + one.Share, was.n + one.N}
	}
	return shares
}

// Clients returns the clients of a sample of the last minute's requests, heaviest first, and the number of sampled
// requests.
func (s *Service) Clients(now time.Time) (list []changes.ClientShare, sampled uint64) {
	t := s.Traffic(now)
	for of, v := range addSamples(&t) {
		list = append(list, changes.ClientShare{Client: of.client, Class: of.class, Share: v.share})
	}
	slices.SortFunc(list, func(a, b changes.ClientShare) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), strings.Compare(a.Client, b.Client))
	})
	return list, t.Sampled
}

// heaviestClients returns the clients and networks of which several requests were sampled, heaviest first.
func (s *Service) heaviestClients(now time.Time) []HeavyClient {
	t := s.Traffic(now)
	found := map[string]*HeavyClient{}
	add := func(name, kind string, v sampledShare, class string) *HeavyClient {
		c := found[name]
		if c == nil {
			c = &HeavyClient{Client: name, Kind: kind, Class: class}
			found[name] = c
		}
		c.Share += v.share
		c.sampled += v.n
		return c
	}
	members := map[string]map[string]bool{}
	for of, v := range addSamples(&t) {
		network := networkOf(of.client)
		if network == "" {
			add(of.client, "", v, of.class).Clients = 1
			continue
		}
		c := add(of.client, rules.TargetClient, v, of.class)
		c.Clients, c.Network = 1, network
		if members[network] == nil {
			members[network] = map[string]bool{}
		}
		members[network][of.client] = true
		add(network, rules.TargetCIDR, v, "").Clients = len(members[network])
	}
	list := make([]HeavyClient, 0, len(found))
	for name, c := range found {
		if c.sampled < past.MinSamples || c.Kind == rules.TargetCIDR && len(members[name]) == 1 {
			continue
		}
		if t.Requests > 0 {
			c.Requests = web.Rounded(t.Requests * c.Share)
		}
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b HeavyClient) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), strings.Compare(a.Client, b.Client))
	})
	list = list[:min(len(list), maxClients)]
	s.addClientOverrides(list, now)
	return list
}

func (s *Service) addClientOverrides(list []HeavyClient, now time.Time) {
	held := s.lastOverrides(now)
	index := held.Index
	for i := range list {
		c := &list[i]
		switch c.Kind {
		case rules.TargetClient:
			addr := hottype.ParseClient(c.Client).Addr
			o := cmp.Or(index.FindClient(addr, now), index.FindClass(c.Class, now))
			c.Override = held.ViewOf(o)
		case rules.TargetCIDR:
			network := netip.MustParsePrefix(c.Client) // as networkOf wrote it
			if o := index.FindClient(network.Addr(), now); o != nil && o.CIDR == c.Client {
				c.Override = held.ViewOf(o)
			}
		}
	}
}

// networkOf returns the network of a client in the form of limiters, /24 or /48, or "" if the client has no address.
func networkOf(client string) string {
	addr := hottype.ParseClient(client).Addr
	if !addr.IsValid() {
		return ""
	}
	bits := 24
	if addr.Is6() {
		bits = 48
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return ""
	}
	return network.String()
}
