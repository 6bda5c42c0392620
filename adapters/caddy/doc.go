// Package caddy is the handler http.handlers.hotparam: Caddy itself counts requests, finds the values that are hot, and
// limits those. Nothing has to be asked. In a Caddyfile:
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
// Without redis and statsd all happens in this process. With them any number of Caddies share hot keys and limits, by
// way of an aggregator.
//
// The directive stands behind rewrites, so that what is counted is what the application sees, and before
// authentication. Who the client is follows from ip.trusted_proxies in the rules, or from the option client.
package caddy
