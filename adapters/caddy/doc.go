// Package caddy is the handler http.handlers.hotparam: Caddy itself counts requests, finds the hot values, and limits
// their requests, without asking another program. In a Caddyfile:
//
//	example.com {
//		hotparam {
//			rules  /etc/caddy/rules.yaml
//			redis  redis://127.0.0.1:6379
//			statsd 127.0.0.1:8127
//		}
//		reverse_proxy 127.0.0.1:3000
//	}
//
// Without redis and statsd everything happens in this process. With them any number of Caddies share hot keys and
// limits by way of an aggregator.
//
// The directive stands behind rewrites, so that the requests counted are the requests that the application sees, and
// before authentication. The client is determined by ip.trusted_proxies in the rules, or by the option client. The
// option denials writes a line for each denied request (docs/denials.md).
package caddy
