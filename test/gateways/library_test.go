package gateways

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"pgregory.net/rapid"
)

// nginxOf is the part of nginx that deploy/nginx/hotparam.lua uses, on virtual time. The feed answers while alive is
// set, with the lines of feed. The text of check is the limiter's answer to a question of a plugin, up to the byte at
// which it stops.
const nginxOf = `
time, alive, feed, form, check, timers, logged, printed = 1000, true, "", "all", "", {}, 0, ""
local Socket = {}
Socket.__index = Socket
function Socket:settimeouts() end
function Socket:connect(host) self.host = host return alive or host == "check", "refused" end
function Socket:send(parts)
  local body = "edge 1 1 " .. form .. "\nrules r\n" .. feed .. "end\n"
  self.text = "HTTP/1.1 200 OK\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
  if self.host == "check" then
    self.text = check
  elseif parts[1]:find("^POST") then
    self.text, posted = "HTTP/1.1 204 No Content\r\n\r\n", table.concat(parts[2] ~= "" and parts[2] or {})
  end
  return true
end
function Socket:receive(length)
  local line = self.text:match("^(.-)\r\n")
  if not length and not line or length and #self.text < length then
    return nil, "timeout", self.text
  end
  local text = length and self.text:sub(1, length) or line
  self.text = self.text:sub(#text + (length and 1 or 3))
  return text
end
function Socket:close() end
function Socket:setkeepalive() end
ngx = {
  var = { hotparam_key = "?", hotparam_rules = "r", hotparam_exempt = "", request_uri = "/", request_method = "GET",
    remote_addr = "", request_id = "1", scheme = "http" },
  ctx = {}, header = {}, ERR = "err", NOTICE = "notice",
  now = function() return time end,
  log = function(level) logged = logged + (level == "err" and 1 or 0) end,
  sleep = function() end,
  exit = function(status) exited = status return status end,
  print = function(...) printed = table.concat({ ... }) end,
  say = function(...) said = (said or "") .. table.concat({ ... }) .. "\n" end,
  req = { get_headers = function() return {} end },
  socket = { tcp = function() return setmetatable({}, Socket) end },
  timer = {
    at = function(_, f)
      poll = poll or f
      timers[#timers + 1] = f ~= poll and f or nil
    end,
    every = function(_, f) flush = f end,
  },
  worker = { id = function() return 0 end, exiting = function() return false end },
}
function run() -- what waits for a timer, without the next poll
  local list = timers
  timers = {}
  for _, f in ipairs(list) do f(false) end
end
function status() said = "" hotparam.status() return said end
`

// library is hotparam.lua in a worker whose feed has been read.
type library struct {
	t rapid.TB
	*lua.LState
}

func newLibrary(t rapid.TB, feed string) *library {
	text, err := os.ReadFile(filepath.Join(deployDir(), "nginx/hotparam.lua"))
	if err != nil {
		t.Fatal(err)
	}
	l := &library{t, lua.NewState()}
	l.do(nginxOf)
	module, err := l.LoadString(string(text))
	if err != nil {
		t.Fatal(err)
	}
	l.Push(module)
	l.Call(0, 1)
	l.SetGlobal("hotparam", l.Get(-1))
	l.SetGlobal("feed", lua.LString(feed))
	l.do(`hotparam.start({ feed = "feed:1", check = "check:1", wait = 100 }) poll(false)`)
	return l
}

func (l *library) do(code string, args ...any) {
	l.t.Helper()
	if err := l.DoString(fmt.Sprintf(code, args...)); err != nil {
		l.t.Fatal(err)
	}
}

// is compares the text of an expression.
func (l *library) is(want, expression string, args ...any) {
	l.t.Helper()
	l.do("result = tostring("+expression+")", args...)
	if got := l.GetGlobal("result").String(); got != want {
		l.t.Fatalf("%s is %q, want %q", fmt.Sprintf(expression, args...), got, want)
	}
}

// from makes the next request a request of a client for a key.
func (l *library) from(addr netip.Addr, key string) {
	var bytes strings.Builder
	for _, b := range addr.AsSlice() {
		fmt.Fprintf(&bytes, `\%03d`, b)
	}
	l.do(`ngx.var.binary_remote_addr, ngx.var.hotparam_key = "%s", %q`, bytes.String(), key)
}

// asks checks that the limiter is asked about a request of a client.
func (l *library) asks(client byte) {
	l.t.Helper()
	l.from(netip.AddrFrom4([4]byte{10, 0, 0, client}), "?")
	l.is("ask", "hotparam.decide()")
}

// loses has a client's question get no byte of an answer in 0.1 s, and runs the timers that follow.
func (l *library) loses(client byte) {
	l.t.Helper()
	l.asks(client)
	l.do(`time = time + 0.1
	ngx.var.upstream_bytes_received, ngx.var.upstream_header_time = "0", "-"
	hotparam.unanswered()
	run()`)
	l.is("200", "exited")
}

// While the feed answers, two clients that lose their answers stop no question, in any order and at any speed.
func TestLibrary_AsksWhileFewClientsLoseAnswers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLibrary(t, "")
		defer l.Close()
		for range rapid.IntRange(1, 40).Draw(t, "questions") {
			l.do("time = time + %d / 1000", rapid.IntRange(0, 700).Draw(t, "ms"))
			if rapid.Bool().Draw(t, "lost") {
				l.loses(rapid.ByteRange(1, 2).Draw(t, "loser"))
			} else {
				l.asks(rapid.Byte().Draw(t, "client"))
			}
		}
		l.asks(9)
	})
}

// Three clients stop no question while they lose no more than half of the answers of the last half second.
func TestLibrary_AsksWhileMostQuestionsAreAnswered(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, "")
	defer l.Close()
	for i := range 200 {
		l.asks(byte(i))
		l.do("time = time + 0.01")
		if i%10 == 0 {
			l.loses(byte(100 + i/10))
			l.do("time = time - 0.1") // the others do not wait for it
		}
	}
	l.asks(9)
}

// The limiter counts as unreachable when three clients lose most questions of a second, and when one client loses its
// answer and the feed does not answer either. The first question after that is asked alone.
func TestLibrary_StopsAskingAbsentLimiter(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, "")
	defer l.Close()
	for client := range byte(3) {
		l.loses(client)
	}
	l.is("", "hotparam.decide()")
	l.do("time = time + 0.11")
	l.asks(9) // the probe
	l.is("", "hotparam.decide()")
	l.do("time = time + 2 poll(false)")
	l.asks(9)
	l.do("alive = false")
	l.loses(1)
	l.is("", "hotparam.decide()")
}

// An answer that began and cannot be read denies its request, is counted and logged, and stops no question. An answer
// that can be read and is not a verdict allows it.
func TestLibrary_DeniesOnUnreadableAnswer(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, "")
	defer l.Close()
	for i, bytes := range []string{"4096", "1", "0, 4096", "8192, 0", "0 : 17"} {
		l.asks(byte(i))
		l.do(`ngx.var.upstream_bytes_received, ngx.var.upstream_header_time = %q, "-"`, bytes)
		l.is("403", "hotparam.unanswered()")
	}
	l.is("5", "logged")
	for i, answer := range []string{"HTTP/1.1 403", "HTTP/1.1 403 Forbidden\\r\\nX-Hotparam-Key: aaaaaaaa", "\\0"} {
		l.asks(byte(i))
		l.do(`check, ngx.status = "%s", 0 hotparam.access({})`, answer)
		l.is("429", "exited")
		l.is("true", `printed:find('"reason":"unread"', 1, true) ~= nil`)
	}
	l.is("8", `status():match("\nunread (%%d+)\n")`)
	l.is("0", `status():match("\nunanswered (%%d+)\n")`)
	l.do(`ngx.var.upstream_bytes_received, ngx.var.upstream_header_time = "200", "0.001"`)
	for client := range byte(9) {
		l.asks(client)
		l.is("200", "hotparam.unanswered()")
		l.do(`exited, check = nil, "HTTP/1.1 503 Service Unavailable\r\n\r\n" hotparam.access({})`)
		l.is("nil", "exited")
	}
	l.asks(9)
	l.is("18", `status():match("\nunanswered (%%d+)\n")`)
}

// A client is its IPv4 address, also on a socket for both families and if networks of IPv6 are short, or the network of
// its IPv6 address. For a client that the limiter watches the gateway asks about every key, for another client about no
// cold key.
func TestLibrary_KnowsClients(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		four := rapid.SliceOfN(rapid.Byte(), 4, 4)
		watched, other := netip.AddrFrom4([4]byte(four.Draw(t, "a"))), netip.AddrFrom4([4]byte(four.Draw(t, "b")))
		prefix := rapid.IntRange(1, 16).Draw(t, "prefix")
		l := newLibrary(t, fmt.Sprintf("prefix %d\nc a %x\nc a %x\nlongest 64\n", prefix, watched.AsSlice(),
			[]byte("\x20\x01\x0d\xb8\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00")[:prefix]))
		defer l.Close()
		key := rapid.StringMatching(`[!-~]{0,200}`).Draw(t, "key")
		for _, a := range []netip.Addr{watched, netip.AddrFrom16(watched.As16())} {
			l.from(a, key)
			l.is("ask", "hotparam.decide()")
		}
		l.from(netip.MustParseAddr("2001:db8:0:1::"), key)
		l.is("ask", "hotparam.decide()")
		if other == watched {
			return
		}
		for _, a := range []netip.Addr{other, netip.AddrFrom16(other.As16())} {
			l.from(a, "topic?id=1")
			l.is("", "hotparam.decide()")
			l.do("flush(false)")
			l.is(fmt.Sprintf("+%x topic?id=1\n", other.AsSlice()), "posted")
		}
	})
}

// A denial that the gateway remembers ends with the line of the feed that the limit of its key has a priority, and no
// denial of that key is remembered after it.
func TestLibrary_ForgetsDenialsOfKeyThatGetsPriority(t *testing.T) {
	t.Parallel()
	const key = "topic?id=1"
	for _, form := range []string{"all", "changes"} {
		l := newLibrary(t, "k d "+key+"\n")
		l.from(netip.AddrFrom4([4]byte{10, 0, 0, 1}), key)
		refuse := func() {
			l.is("ask", "hotparam.decide()")
			l.do(`local v = ngx.var
			v.verdict_key, v.verdict_reason, v.verdict_retry_ms, v.verdict_rule = %q, "hot", "9000", "topic"
			hotparam.refused("@cached")`, key)
		}
		refuse()
		l.is("deny", "hotparam.decide()")
		l.do(`feed, form = "k a %s\n", %q poll(false)`, key, form)
		refuse()
		l.is("ask", "hotparam.decide()")
		l.Close()
	}
}

// A denial hands a visitor pass to its client, and a page reloads itself unless the request sends a form or its wait is
// longer than two minutes.
func TestLibrary_HandsPassesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, accept, retry, reload string }{
		{"GET", "text/html", "11", "11"}, {"GET", "text/html", "120", "120"}, {"GET", "text/html", "121", "nil"},
		{"POST", "text/html", "11", "nil"}, {"GET", "*/*", "11", "nil"},
	} {
		l := newLibrary(t, "")
		l.asks(1)
		l.do(`ngx.var.request_method, ngx.var.http_accept, ngx.status = %q, %q, 0
		check = "HTTP/1.1 403 Forbidden\r\nSet-Cookie: hotparam_12ab=A; Path=/\r\nRetry-After: %s\r\n\r\n"
		hotparam.access({})`, c.method, c.accept, c.retry)
		l.is("hotparam_12ab=A; Path=/", `ngx.header["Set-Cookie"]`)
		l.is(c.reload, `ngx.header["Refresh"]`)
		l.Close()
	}
}

// The end of a request is reported if the limiter gave it a number, or if it passed and its key counts by a cost. A
// question that is given up is reported by its number. Other requests report nothing.
func TestLibrary_ReportsEnds(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, "reports word\ncost - report\ncost X-Cost *\nk a topic?id=hot\n")
	one := netip.AddrFrom4([4]byte{192, 0, 2, 1})
	set := func(values string) { l.do("for name, value in pairs({ %s }) do ngx.var[name] = value end", values) }
	ended := func(values, want string) {
		t.Helper()
		set(values)
		l.do("posted = nil hotparam.done() flush(false)")
		l.is(want, "posted")
	}
	decides := func(key, want string) {
		t.Helper()
		l.from(one, key)
		set(`hotparam_passed = "", verdict_report = "", verdict_key = "", request_id = "0123456789abcdef0123456789abcdef"`)
		l.is(want, "hotparam.decide()")
	}
	const ok = `status = "200", upstream_header_time = "0.035", upstream_response_time = "0.4", body_bytes_sent = 512`
	decides("report?filter=full", "")
	ended(ok, "+c0000201 report?filter=full\n") // the first request shows that ends will be reported
	decides("topic?id=1", "")
	ended(ok, "+c0000201 topic?id=1\n")
	decides("report?filter=full", "")
	ended(ok, "~c0000201 report?filter=full\n>200,35.000,512,-,c0000201 report?filter=full\n")
	decides("/page?id=1", "")
	ended(ok+`, upstream_http_x_cost = "2.5"`, "~c0000201 /page?id=1\n>200,35.000,512,2.500,c0000201 /page?id=1\n")
	decides("/page?id=1", "")
	ended(ok+`, upstream_http_x_cost = "no"`, "~c0000201 /page?id=1\n>200,35.000,512,-,c0000201 /page?id=1\n")
	decides("report?filter=full", "") // retried, and then the client left
	ended(`status = "499", upstream_header_time = "-, -", upstream_response_time = "0.100, 0.500"`,
		"~c0000201 report?filter=full\n>499,600.000,512,-,c0000201 report?filter=full\n")

	decides("topic?id=hot", "ask")
	l.is("word-0123456789abcdef0123456789abcdef", "ngx.var.hotparam_reports")
	ended(ok+`, verdict_report = "123456789abcdef", verdict_key = "/x?y=1", upstream_http_x_cost = "7"`,
		"<200,35.000,512,7.000 0123456789abcdef\n")
	decides("topic?id=hot", "ask")
	ended(ok, "nil")
	set(`upstream_header_time = "-", upstream_bytes_received = "0"`)
	l.do("posted = nil hotparam.unanswered() flush(false)")
	l.is("<0,-,-,- 0123456789abcdef\n", "posted")
}
