// Package gateways starts real gateways with the files of deploy/, in front of an application and beside a real
// limiter, and checks the responses of their clients and the requests of the application. A gateway that is not
// installed is fetched (see .ci/run); without HOTPARAM_REQUIRE_SERVERS=1 its tests skip.
package gateways
