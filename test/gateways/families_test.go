package gateways

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// forBothFamilies makes a gateway that listens on an IPv4 address listen on one socket for IPv4 and IPv6, which writes
// IPv4 clients as ::ffff:a.b.c.d.
func forBothFamilies(t *testing.T, cmd *exec.Cmd, front string) *exec.Cmd {
	t.Helper()
	listen := strings.NewReplacer("listen 127.0.0.1:"+front, "listen [::]:"+front+" ipv6only=off",
		"bind 127.0.0.1:"+front, "bind [::]:"+front+" v4v6", "default_bind 127.0.0.1", "default_bind [::]",
		"web.address=127.0.0.1:"+front, "web.address=[::]:"+front,
		"address: 127.0.0.1, port_value: "+front, "address: '::', ipv4_compat: true, port_value: "+front)
	found := false
	for i, arg := range cmd.Args[1:] {
		if text, err := os.ReadFile(arg); err == nil && len(text) < 1<<20 {
			edited(t, arg, listen.Replace)
			found = found || listen.Replace(string(text)) != string(text)
		}
		cmd.Args[i+1] = listen.Replace(arg)
		found = found || cmd.Args[i+1] != arg
	}
	if !found {
		t.Fatalf("%s does not listen on 127.0.0.1", cmd)
	}
	return cmd
}

// forBothFamilies is the gateway on a socket for IPv4 and IPv6.
func (d deciding) forBothFamilies() deciding {
	start := d.start
	d.start = func(t *testing.T, p places, keys string, replace ...string) *exec.Cmd {
		t.Helper()
		return forBothFamilies(t, start(t, p, keys, replace...), p.front)
	}
	return d
}
