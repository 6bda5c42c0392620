package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// seen describes how a handler read a target.
type seen string

const (
	missed seen = "not routed or another value" // in the table: neither exact nor array
	other  seen = "another value"
	exact  seen = "exact"
	array  seen = "array"
)

// ask sends a target byte for byte and returns how the handler read it.
func ask(ctx context.Context, addr string, t *target) seen {
	method := t.Method
	if method == "" {
		method = http.MethodGet
	}
	var head bytes.Buffer
	head.WriteString(method + " ")
	for _, r := range t.Target {
		head.WriteByte(byte(r))
	}
	head.WriteString(" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n")
	for name, value := range t.Headers {
		fmt.Fprintf(&head, "%s: %s\r\n", name, value)
	}
	if t.Body != "" {
		fmt.Fprintf(&head, "Content-Length: %d\r\n", len(t.Body))
	}
	head.WriteString("\r\n" + t.Body)
	status, body := exchange(ctx, addr, method, head.Bytes())
	if status != http.StatusOK {
		return missed
	}
	return t.read(body)
}

// exchange sends a request byte for byte over a connection of its own. It returns status 0 if no answer came.
func exchange(ctx context.Context, addr, method string, request []byte) (status int, body []byte) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write(request); err != nil {
		return 0, nil
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	if body, err = io.ReadAll(res.Body); err != nil {
		return 0, nil
	}
	return res.StatusCode, body
}

// read reads an answer: our JSON, or the text of nginx.
func (t *target) read(body []byte) seen {
	param := t.Param
	if param == "" {
		param = "id"
	}
	if text, ok := strings.CutPrefix(string(body), "nginx|"); ok {
		id, topicID, _ := strings.Cut(text, "|")
		if param == "topic_id" {
			id = topicID
		}
		if id == t.Means {
			return exact
		}
		return other
	}
	var saw map[string]any
	if err := json.Unmarshal(body, &saw); err != nil || saw["saw"] != true {
		return missed
	}
	switch v := saw[param].(type) {
	case string:
		if v == t.Means {
			return exact
		}
	case []any:
		if len(v) == 1 && v[0] == t.Means {
			return array
		}
	}
	return other
}
