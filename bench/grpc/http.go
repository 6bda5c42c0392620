package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// web is a service called over HTTP, with the request for one value of a key, as text.
type web struct {
	addr    string
	request func(key, value string) string
}

// checks returns hotparam's requests, which are Envoy's requests of its authorization by HTTP.
func checks(addr string) *web {
	return &web{addr: addr, request: func(key, value string) string {
		return "GET /check?/" + key + "?id=" + value + " HTTP/1.1\r\nHost: bench\r\n\r\n"
	}}
}

// documents returns the peer's requests.
func documents(addr string) *web {
	return &web{addr: addr, request: func(key, value string) string {
		body := `{"domain":"bench","descriptors":[{"entries":[{"key":"` + key + `","value":"` + value + `"}]}]}`
		return "POST /json HTTP/1.1\r\nHost: bench\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}}
}

// load sends requests with n callers for d, each on a kept connection of its own.
func (w *web) load(
	ctx context.Context, key string, n int, d time.Duration, refused bool,
) (int, time.Duration, error) {
	of, status := values, http.StatusOK
	if refused {
		of, status = denied, http.StatusTooManyRequests
	}
	requests := make([][]byte, of)
	for i := range requests {
		requests[i] = []byte(w.request(key, strconv.Itoa(i)))
	}
	end := time.Now().Add(d)
	loads, faults := make([]oneLoad, n), make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { faults[i] = w.caller(ctx, &loads[i], i, end, requests, status) })
	}
	running.Wait()
	if err := errors.Join(faults...); err != nil {
		return 0, 0, err
	}
	return sum(key, loads, of)
}

// caller sends requests until end.
func (w *web) caller(ctx context.Context, l *oneLoad, i int, end time.Time, requests [][]byte, want int) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", w.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(end.Add(10 * time.Second)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	for k := i * 101; ; k++ {
		began := time.Now()
		if !began.Before(end) {
			return nil
		}
		if _, err := conn.Write(requests[k%len(requests)]); err != nil {
			return err
		}
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			return err
		}
		switch answer.StatusCode {
		case want:
		case http.StatusOK:
			l.others++
		default:
			return fmt.Errorf("%s: status %d", w.addr, answer.StatusCode)
		}
		l.times = append(l.times, time.Since(began))
	}
}
