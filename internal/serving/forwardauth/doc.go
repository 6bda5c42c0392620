// Package forwardauth answers gateways that ask by HTTP whether a request may pass and that evaluate only the status of
// the response: nginx (auth_request), Traefik (ForwardAuth), Caddy (forward_auth), APISIX, Envoy (ext_authz over HTTP).
//
//	in:  a check, which describes a request in one [Dialect]; its body is not read
//	out: 200 for allowed, 429 (or another 4xx) for denied, both with the RateLimit fields and
//	     X-Hotparam-Reason, -Rule and -Key; 400 for a check that describes no request
//
// Checks come from gateways, which are trusted with the contents of their dialect, so the listener in front admits only
// gateways. Data of the gateway's clients is not trusted: each dialect reads only fields that its gateways overwrite.
package forwardauth
