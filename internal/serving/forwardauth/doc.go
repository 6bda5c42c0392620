// Package forwardauth answers gateways that ask by HTTP whether a request may pass and look at the status of the
// answer alone: nginx (auth_request), Traefik (ForwardAuth), Caddy (forward_auth), APISIX, Envoy (ext_authz over
// HTTP).
//
//	in:  a check, which describes a request in one [Dialect]; its body is not read
//	out: 200 (or 204) for allowed, 429 (or another 4xx) for denied, both with the RateLimit fields and
//	     X-Hotparam-Reason, -Rule and -Key; 400 for a check that describes no request
//
// Senders of checks are gateways and are trusted with what their dialect says, so the listener in front lets only
// gateways in. What the gateway's clients send is not believed: each dialect reads the fields that its gateways
// overwrite, and no others.
package forwardauth
