package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// healthCmd asks a URL once. It is the health check of containers that have neither a
// shell nor curl.
type healthCmd struct {
	URL        string        `arg:"" help:"URL to ask, such as http://127.0.0.1:9180/readyz."`
	Timeout    time.Duration `default:"3s" help:"Longest wait for the answer."`
	UnixSocket string        `placeholder:"PATH" help:"Ask over this unix socket; the URL says which path."`
	CA         string        `name:"ca" placeholder:"FILE" help:"Trusted certificates (PEM); default: the system's."`
	Insecure   bool          `help:"Trust any certificate."`
}

// firstLineMax bounds how much of an answer's body is shown, in bytes.
const firstLineMax = 300

// Run gives an error of one line: what was asked and why it is not well.
func (c *healthCmd) Run(ctx context.Context) error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return config.Usage("health: want a URL such as http://127.0.0.1:9180/readyz")
	}
	if c.Timeout <= 0 {
		return config.Usage("health: --timeout %v: want more than 0", c.Timeout)
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := ask(ctx, client, u); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", c.Timeout)
		}
		return fmt.Errorf("health: %s: %w", u.Redacted(), err)
	}
	return nil
}

func (c *healthCmd) client() (*http.Client, error) {
	config, err := tlsfiles.Files{CA: c.CA}.Client("health: --")
	if err != nil {
		return nil, err
	}
	config.InsecureSkipVerify = c.Insecure
	t := &http.Transport{TLSClientConfig: config}
	if c.UnixSocket != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.UnixSocket)
		}
	}
	return newClient(t), nil
}

// ask is nil if the answer is 2xx.
func ask(ctx context.Context, client *http.Client, u *url.URL) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // the caller names the URL
		}
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 2 {
		return nil
	}
	line, _ := bufio.NewReader(io.LimitReader(res.Body, firstLineMax)).ReadString('\n') // a cut body is shown as it is
	line = strings.ToValidUTF8(strings.TrimSpace(line), string(utf8.RuneError))
	return errors.New(strings.TrimSuffix(res.Status+": "+printable(line), ": "))
}
