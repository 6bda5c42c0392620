package spoe

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// check is the description of a request in a message.
type check struct {
	request hottype.Request
	headers httplimit.Headers
	isCheck bool // the message has the name "check"
	tls     bool // the client uses TLS
}

// decodeMessages reads the messages of a notification.
func decodeMessages(payload []byte) ([]check, error) {
	var list []check
	for d := (decoder{payload, nil}); len(d.b) > 0; {
		if len(list) == maxMessages {
			return nil, errFrame
		}
		c := check{isCheck: d.readText() == "check", request: hottype.Request{Method: http.MethodGet, FromProxy: true}}
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

func (c *check) setArgument(name string, v value) {
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
	case "headers":
		c.headers = decodeHeaders(v.text)
	}
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
	allowed bool
	texts   [len(textVariables)]string // "" if not set
}

// textVariables are the names of variables, the most important first. HAProxy uses the first ones for its responses and
// retries; the others are for people.
var textVariables = [...]string{"reason", "retry_after", "retry_ms", "set_cookie", "ratelimit", "ratelimit_policy",
	"rule", "key"}

// setVariables sets the variables of a verdict.
func (n *answer) setVariables(allowed bool, texts ...string) {
	n.allowed = allowed
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
func (a *Agent) decideCheck(ctx context.Context, n *answer, c *check) {
	if !c.isCheck || c.request.Target == "" {
		a.malformed.Add(1)
		n.setVariables(false, "bad_check")
		return
	}
	c.request.Header = &c.headers
	v := a.gate.DecideForGateway(context.WithoutCancel(ctx), time.Now(), &c.request)
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
	n.setVariables(v.Allowed, v.Reason.String(), h.Get("Retry-After"), retry, httplimit.PassCookie(&v, c.tls),
		h.Get("Ratelimit"), h.Get("Ratelimit-Policy"), v.Rule, string(v.Key))
}

// appendVariable begins an action that sets a variable of the transaction. Its value follows.
func appendVariable(b []byte, name string) []byte {
	const setVar, arguments, scopeTransaction = 1, 3, 2
	return appendText(append(b, setVar, arguments, scopeTransaction), name)
}
