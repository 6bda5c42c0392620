package clientlaws

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// oracle holds all requests that were allowed.
type oracle struct {
	Law
	allowed []taken
	asked   map[asked]int
}

// taken is an allowed request under one of its windows.
type taken struct {
	window  string
	at      time.Time // by the clock of the window
	cost    int64
	process int
}

// asked is a window and a process that was asked about it. Its value is the number of requests before its last one.
type asked struct {
	window  string
	process int
}

// window is one limit of a request.
type window struct {
	id      string // of the limit and its subject
	reason  hottype.Reason
	rule    string
	key     hottype.Key
	limit   int64
	length  time.Duration
	sliding bool
	subject limit.Subject
}

// decide returns the answer of all limits.
func (o *oracle) decide(process int, now time.Time, req *hottype.Request) (answer Answer) {
	cost, list, onlyFixed := max(req.Cost, 1), o.windowsOf(req), true
	answer.Allowed = true
	for _, w := range list {
		at := now.Add(o.Ahead(&w.subject))
		left := o.remaining(process, &w, at)
		if left >= cost {
			if answer.Allowed && (answer.Rule == "" || left-cost < answer.Remaining) {
				answer.Rule, answer.Remaining = w.rule, left-cost
			}
			continue
		}
		if w.reason == hottype.ReasonHot {
			onlyFixed = false // it may be in another store, whose wait is not asked for then
		}
		if answer.Allowed {
			answer = Answer{Reason: w.reason, Rule: w.rule, Key: w.key}
		}
		if w.sliding || cost > w.limit {
			onlyFixed = false
		}
		answer.Retry = max(answer.Retry, windowStart(at, w.length).Add(w.length).Sub(at))
	}
	if !onlyFixed {
		answer.Retry = 0
	}
	for _, w := range list {
		if answer.Allowed {
			o.allowed = append(o.allowed, taken{w.id, now.Add(o.Ahead(&w.subject)), cost, process})
		}
	}
	for _, w := range list {
		o.asked[asked{w.id, process}] = len(o.allowed)
	}
	return answer
}

// remaining returns the cost that a window allows now, as far as a process knows.
func (o *oracle) remaining(process int, w *window, now time.Time) int64 {
	start := windowStart(now, w.length)
	var used, before int64
	for i, t := range o.allowed {
		if t.window != w.id || t.process != process && i >= o.asked[asked{w.id, process}] {
			continue
		}
		switch of := windowStart(t.at, w.length); {
		case of.Equal(start):
			used += t.cost
		case w.sliding && of.Equal(start.Add(-w.length)):
			before += t.cost
		}
	}
	rest := int64(w.length - now.Sub(start))
	return w.limit - used - (before*rest+int64(w.length)-1)/int64(w.length)
}

// windowStart returns the begin of the window that contains a time: windows are aligned to the Unix epoch.
func windowStart(at time.Time, length time.Duration) time.Time {
	return time.Unix(0, at.UnixNano()-at.UnixNano()%int64(length))
}

// clientOf returns whom a window counts, and under which name the decider keeps that client: by the rules of
// docs/rules.md#client_key, the value of the field or the address; "" is a client that is not known.
func clientOf(req *hottype.Request, field string) (id string, kept hottype.Client) {
	if lines := req.Header.Values(field); field != "" && req.FromProxy && len(lines) == 1 {
		switch value := strings.Trim(lines[0], " \t"); {
		case len(value) > 128:
			return value, hottype.Client{Name: fmt.Sprintf("%s#%.16x", field, sha256.Sum256([]byte(value)))}
		case value != "":
			return field + "=" + value, hottype.Client{Name: field + "=" + value}
		}
	}
	if req.Client.IsZero() {
		return "", req.Client
	}
	return req.Client.String(), req.Client
}

// ruleOf returns the rule of a request behind the first one, and its key.
func ruleOf(req *hottype.Request) (rule string, key hottype.Key) {
	switch path, _, _ := strings.Cut(req.Target, "?"); {
	case path == "/topic":
		return "topic", hottype.Key(req.Target[1:])
	case path == "/login" && req.Method == http.MethodPost:
		return "login", "login"
	}
	return "*", hottype.Key(req.Target)
}

// windowsOf returns the limits of a request in the order in which they deny.
func (o *oracle) windowsOf(req *hottype.Request) (list []window) {
	class := req.Header.Get("X-Class")
	if req.Client.String() == "192.0.2.9" {
		return nil
	}
	rule, key := ruleOf(req)
	account, org := "", ""
	if o.Fields {
		account, org = "X-Account", "X-Org"
	}
	add := func(w window, field string, units int) {
		var client string
		if client, w.subject.Client = clientOf(req, field); client == "" {
			return
		}
		w.length = o.Unit * time.Duration(units)
		w.id = fmt.Sprint(w.id, w.sliding, req.Method == http.MethodOptions, client)
		list = append(list, w)
	}
	const first hottype.Key = "all"
	if class == "robot" {
		add(window{id: "ip robot", reason: hottype.ReasonIPFixed, rule: "ip_fixed", key: first, limit: 5}, org, 1)
	} else {
		add(window{id: "ip", reason: hottype.ReasonIPFixed, rule: "ip_fixed", key: first, limit: 8}, "", 1)
	}
	if o.Fields {
		add(window{id: "ip", reason: hottype.ReasonIPSliding, rule: "ip_sliding", key: first, limit: 20, sliding: true},
			account, 4)
	}
	of := ""
	byRule := func(rule string, key hottype.Key, field string, limit int64, units int, sliding bool) {
		w := window{id: rule + of, rule: rule, key: key, limit: limit, sliding: sliding}
		if w.reason = hottype.ReasonClientFixed; sliding {
			w.reason = hottype.ReasonClientSliding
		}
		add(w, field, units)
	}
	if class == "member" {
		of = " member"
		byRule("all", "all", account, 6, 2, true)
		if rule != "*" {
			byRule(rule, key, account, 6, 2, true)
		}
	} else {
		byRule("all", "all", org, 25, 5, true)
		switch rule {
		case "login":
			byRule(rule, key, "", 4, 1, false)
			byRule(rule, key, account, 9, 3, true)
		case "topic":
			byRule(rule, key, account, 3, 1, false)
		}
	}
	if key == HotKey && !o.Cold {
		w := window{id: "key", reason: hottype.ReasonHot, rule: "topic", key: key, limit: 7, length: o.Unit}
		w.subject = limit.Subject{Space: "hot", Name: string(key)}
		list = append(list, w)
	}
	return list
}
