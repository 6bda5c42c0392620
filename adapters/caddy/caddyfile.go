package caddy

import (
	"strconv"

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
//		denials <file> {
//			format json|logfmt
//			rate   <lines a second>
//		}
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
		case "denials":
			h.Denials.To = value
			if err := h.Denials.unmarshalBlock(d); err != nil {
				return err
			}
		default:
			return d.Errf("hotparam: unknown option %q: it must be rules, redis, statsd, budget, client or denials", name)
		}
	}
	return nil
}

func (l *Denials) unmarshalBlock(d *caddyfile.Dispenser) error {
	for d.NextBlock(1) {
		name := d.Val()
		var value string
		if !d.AllArgs(&value) {
			return d.ArgErr()
		}
		switch name {
		case "format":
			l.Format = value
		case "rate":
			rate, err := strconv.Atoi(value)
			if err != nil || rate == 0 {
				return d.Errf("hotparam: denials: rate %q must be a whole number of at least 1, or -1 for no maximum", value)
			}
			l.Rate = rate
		default:
			return d.Errf("hotparam: denials: unknown option %q: it must be format or rate", name)
		}
	}
	return nil
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
