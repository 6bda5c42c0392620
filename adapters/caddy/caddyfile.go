package caddy

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() { // Caddy finds its directives by this registration
	httpcaddyfile.RegisterHandlerDirective("hotparam", parse)
	httpcaddyfile.RegisterDirectiveOrder("hotparam", httpcaddyfile.Before, "basic_auth")
}

func parse(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	return handler, handler.UnmarshalCaddyfile(h.Dispenser)
}

// UnmarshalCaddyfile reads the directive:
//
//	hotparam [<matcher>] {
//		rules  <file>
//		redis  <url>
//		statsd <addresses>
//		budget <duration>
//		client <placeholders>
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the directive
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		name := d.Val()
		var value string
		if !d.AllArgs(&value) {
			return d.ArgErr()
		}
		switch name {
		case "rules":
			h.Rules = value
		case "redis":
			h.Redis = value
		case "statsd":
			h.StatsD = value
		case "client":
			h.Client = value
		case "budget":
			budget, err := caddy.ParseDuration(value)
			if err != nil {
				return d.Errf("budget: %v", err)
			}
			h.Budget = caddy.Duration(budget)
		default:
			return d.Errf("hotparam: unknown option %q: it must be rules, redis, statsd, budget or client", name)
		}
	}
	return nil
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
