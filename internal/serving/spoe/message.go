package spoe

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/serving/held"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Names of messages.
const (
	messageCheck = "check" // asks about a request
	messageEnded = "ended" // reports that a request has ended
)

// message is the description of a request in a message.
type message struct {
	name    string
	request hottype.Request
	headers httplimit.Headers
	tls     bool // the client uses TLS

	reports bool // HAProxy will report the end of the request
	report  uint64
	end     held.End
}

// decodeMessages reads the messages of a notification.
func decodeMessages(payload []byte) ([]message, error) {
	var list []message
	for d := (decoder{payload, nil}); len(d.b) > 0; {
		if len(list) == maxMessages {
			return nil, errFrame
		}
		c := message{name: d.readText(), request: hottype.Request{Method: http.MethodGet, FromProxy: true},
			end: held.End{Status: -1, Given: costs.NothingGiven}}
		for range int(d.readByte()) {
			c.setArgument(d.readText(), d.readValue())
		}
		if d.err != nil {
			return nil, d.err
		}
		if c.request.Host == "" {
			c.request.Host = c.headers.Get("Host")
		}
		list = append(list, c)
	}
	return list, nil
}

func (c *message) setArgument(name string, v value) {
	switch name {
	case "method":
		c.request.Method = v.text
	case "uri":
		// HAProxy sends the empty path of http://host?x=1 as it is. A target that it cannot read is null.
		if c.request.Target = v.text; v.kind != typeNull && v.text != "*" && !strings.HasPrefix(v.text, "/") {
			c.request.Target = "/" + v.text
		}
	case "host":
		c.request.Host = v.text
	case "ip":
		httplimit.IdentifyText(&c.request, v.text)
	case "cost":
		c.request.Cost = int64(min(v.number, 1<<53-1))
	case "tls":
		c.tls = v.number != 0
	case "reports":
		c.reports = v.number != 0
	case "report":
		c.report, _ = strconv.ParseUint(v.text, 10, 64)
	case "status":
		c.end.Status = int(v.number)
	case "ms":
		if ms, ok := v.amount(maxMillis); ok {
			c.end.Given.Time = time.Duration(ms * float64(time.Millisecond))
		}
	case "bytes":
		if n, ok := v.amount(1 << 53); ok {
			c.end.Given.Bytes = int64(n)
		}
	case "response_cost":
		if n, ok := v.amount(1e12); ok {
			c.end.Given.Cost = n
		}
	case "headers":
		c.headers = decodeHeaders(v.text)
	}
}

// maxMillis bounds the time of a request, which is a day and more.
const maxMillis = 1e8

// amount returns a number from 0 to most, which HAProxy sends as a number or as a text.
func (v value) amount(most float64) (n float64, ok bool) {
	if v.kind == typeString {
		n, err := strconv.ParseFloat(v.text, 64)
		return n, err == nil && n >= 0 && n <= most
	}
	n = float64(v.number)
	return n, v.kind != typeNull && n <= most
}

// decodeHeaders reads HAProxy's req.hdrs_bin: names and values, up to an empty name and value.
func decodeHeaders(text string) httplimit.Headers {
	var list httplimit.Headers
	for d := (decoder{[]byte(text), nil}); len(d.b) > 0; {
		name, v := d.readText(), d.readText()
		if d.err != nil || name == "" && v == "" {
			break
		}
		list = append(list, httplimit.HeaderField{Name: name, Value: v})
	}
	return list
}

// answer holds the variables that one frame sets. A later message of the frame overwrites them.
type answer struct {
	decided bool // some message asked
	allowed bool
	texts   [len(textVariables)]string // "" if not set
}

// textVariables are the names of variables, the most important first. HAProxy uses the first ones for its responses and
// retries; the others are for people.
var textVariables = [...]string{"reason", "report", "retry_after", "retry_ms", "set_cookie", "ratelimit",
	"ratelimit_policy", "rule", "key"}

// setVariables sets the variables of a verdict.
func (n *answer) setVariables(allowed bool, texts ...string) {
	n.decided, n.allowed = true, allowed
	for i, text := range texts {
		if text != "" {
			n.texts[i] = text
		}
	}
}

// appendActions appends the actions that set the variables. It leaves out a variable that would make b longer than most
// bytes, because HAProxy treats a frame that is longer than it announced as no answer.
func (n *answer) appendActions(b []byte, most int) []byte {
	b = appendBool(appendVariable(b, "allowed"), n.allowed)
	for i, text := range n.texts {
		if text == "" {
			continue
		}
		before := len(b)
		b = appendString(appendVariable(b, textVariables[i]), strings.ToValidUTF8(text, "\ufffd"))
		if len(b) > most {
			b = b[:before]
		}
	}
	return b
}

// decideCheck decides a check and sets the variables of its verdict. A message with another name, or one that describes
// no request, is denied, as on the other listeners.
func (a *Agent) decideCheck(ctx context.Context, n *answer, c *message) {
	if c.name == messageEnded {
		if a.held != nil {
			a.held.End(c.report, c.end)
		}
		return
	}
	if c.name != messageCheck || c.request.Target == "" {
		a.malformed.Add(1)
		n.setVariables(false, "bad_check")
		return
	}
	c.request.Header = &c.headers
	v, report := a.decideRequest(context.WithoutCancel(ctx), c)
	httplimit.Quote(&v)
	a.checks.Add(1)
	h, answers, retry := http.Header{}, httplimit.Responder{}, ""
	answers.SetLimits(h, &v)
	if !v.Allowed {
		a.denied.Add(1)
		httplimit.SetRetryAfter(h, &v)
		if ms := httplimit.Millis(v.RetryAfter); ms > 0 {
			retry = strconv.FormatInt(ms, 10)
		}
	}
	httplimit.Wait(ctx, &v)
	n.setVariables(v.Allowed, v.Reason.String(), report, h.Get("Retry-After"), retry, httplimit.PassCookie(&v, c.tls),
		h.Get("Ratelimit"), h.Get("Ratelimit-Policy"), v.Rule, string(v.Key))
}

// decideRequest returns the verdict on a request, and the number by which HAProxy reports its end, or "".
func (a *Agent) decideRequest(ctx context.Context, c *message) (v hottype.Verdict, report string) {
	if a.held == nil || !c.reports {
		return a.gate.DecideForGateway(ctx, time.Now(), &c.request), ""
	}
	v, number := a.held.DecideReported(ctx, time.Now(), &c.request)
	if number == 0 {
		return v, ""
	}
	return v, strconv.FormatUint(number, 10)
}

// appendVariable begins an action that sets a variable of the transaction. Its value follows.
func appendVariable(b []byte, name string) []byte {
	const setVar, arguments, scopeTransaction = 1, 3, 2
	return appendText(append(b, setVar, arguments, scopeTransaction), name)
}
