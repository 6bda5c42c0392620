"""Asks a sidecar before a request is answered. Python 3.8, standard library only; one Limiter for each thread.

    limiter = Limiter("127.0.0.1:8181")
    verdict = limiter.decide("GET", "/topic?id=42", ip="198.51.100.7")
    if not verdict["allowed"]:
        return 429, {"Retry-After": retry_after(verdict)}

Where visitors have passes, decide also needs headers={"cookie": ...}, and a denial that has verdict["set_cookie"] sends
it as Set-Cookie, with Cache-Control: no-store.
"""
import http.client
import json


class Limiter:
    """Keeps one connection. A request passes if the sidecar does not answer within timeout seconds."""

    def __init__(self, address, token=None, timeout=0.1):
        self.connection = http.client.HTTPConnection(address, timeout=timeout)
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = "Bearer " + token

    def decide(self, method, uri, host="", ip="", headers=None, cost=1):
        question = {"method": method, "uri": uri, "host": host, "ip": ip, "headers": headers or {}, "cost": cost}
        for attempt in (1, 2):  # the sidecar may have closed an idle connection
            try:
                self.connection.request("POST", "/v1/decide", json.dumps(question), self.headers)
                response = self.connection.getresponse()
                body = response.read()
            except (ConnectionError, http.client.HTTPException):
                self.connection.close()
            except OSError:  # the sidecar is slow, and would be slow again
                self.connection.close()
                break
            else:
                if response.status >= 500:  # see the sidecar's log: it cannot answer, or the token is wrong
                    break
                if response.status != 200:
                    raise ValueError("hotparam: %d: %s" % (response.status, body.decode()))
                return json.loads(body)
        return {"allowed": True, "reason": "no_answer", "retry_after_ms": 0}


def retry_after(verdict):
    """Returns the whole seconds to wait, at least 1, or None if waiting does not help."""
    ms = verdict["retry_after_ms"]
    return None if ms < 0 else str(max(1, -(-ms // 1000)))
