package etcdrules

import (
	"context"
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/hotparam/pipeline/internal/testing/etcdtest"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// The documented rights are enough: a writer has readwrite on the key and its prefix, a reader read on the key. Who
// shows no certificate, no user or a wrong password gets nothing.
func TestOpen_AcceptsTLSAndDocumentedUsers(t *testing.T) {
	t.Parallel()
	authority, soon, ctx := redistest.NewAuthority(t), time.Now().Add(time.Hour), context.Background()
	own, shown := authority.Issue(soon, "127.0.0.1"), authority.Issue(soon, "client")
	s := etcdtest.StartTLS(t, authority.Client(), "--client-cert-auth", "--trusted-ca-file", authority.CA,
		"--cert-file", own.Cert, "--key-file", own.Key)
	makeUsers(ctx, t, s.Client())
	try := func(user, password string, files tlsfiles.Files) (*Store, error) {
		t.Helper()
		config, err := files.Client("etcd.tls_")
		if err != nil {
			t.Fatal(err)
		}
		return Open(Config{
			Endpoints: []string{s.Addr()}, Key: key, Username: user, Password: password, TLS: config,
			Timeout: 5 * time.Second, Log: slog.New(slog.DiscardHandler),
		})
	}
	as := func(user, password string, files tlsfiles.Files) *Store {
		t.Helper()
		store, err := try(user, password, files)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	files := tlsfiles.Files{CA: authority.CA, Cert: shown.Cert, Key: shown.Key}
	writer, reader := as("writer", "pw", files), as("reader", "pw", files)
	first := pushed(t, writer, "one")
	if list, err := writer.History(ctx); err != nil || len(list) != 1 {
		t.Errorf("history: %v, %v", list, err)
	}
	if got, err := reader.Read(ctx); err != nil || version(got) != first.Version {
		t.Errorf("a reader reads %+v, %v", got, err)
	}
	next := changed(t, first, "two")
	if err := reader.Write(ctx, first.Version, next); err == nil {
		t.Error("a reader wrote")
	}
	for name, open := range map[string]func() (*Store, error){
		"a wrong password": func() (*Store, error) { return try("writer", "guess", files) },
		"no user":          func() (*Store, error) { return try("", "", files) },
		"no certificate":   func() (*Store, error) { return try("writer", "pw", tlsfiles.Files{CA: authority.CA}) },
	} {
		store, err := open()
		if err != nil {
			continue // the server said at once that it may not
		}
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		if got, err := store.Read(short); err == nil {
			t.Errorf("%s: read %+v", name, got)
		}
		cancel()
		_ = store.Close() // nothing was read
	}
}

// A user can continue when etcd no longer accepts the token: because authentication was enabled, a password was set,
// roles changed, or etcd was started again.
func TestClient_ReplacesTokens(t *testing.T) {
	t.Parallel()
	s, ctx := etcdtest.Start(t), context.Background()
	store, err := Open(Config{Endpoints: []string{"http://" + s.Addr()}, Key: key, Username: "writer", Password: "pw",
		Timeout: 20 * time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	pushed(t, store, "before there are users")
	makeUsers(ctx, t, s.Client())
	pushed(t, store, "enabled")
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr()}, Username: "root", Password: "pw",
		Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if _, err := root.UserChangePassword(ctx, "writer", "pw"); err != nil {
		t.Fatal(err)
	}
	pushed(t, store, "a password was set")
	if _, err := root.RoleAdd(ctx, "another"); err != nil {
		t.Fatal(err)
	}
	last := pushed(t, store, "roles changed")
	s.Kill()
	s.Launch()
	if got, err := store.Read(ctx); err != nil || version(got) != last.Version {
		t.Errorf("after a restart: %+v, %v", got, err)
	}
}

// makeUsers makes the documented users, and has etcd ask for one.
func makeUsers(ctx context.Context, t *testing.T, c *clientv3.Client) {
	t.Helper()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range []string{"root", "writer", "reader"} {
		must(c.RoleAdd(ctx, user))
		must(c.UserAdd(ctx, user, "pw"))
		must(c.UserGrantRole(ctx, user, user))
	}
	both, read := clientv3.PermissionType(clientv3.PermReadWrite), clientv3.PermissionType(clientv3.PermRead)
	must(c.RoleGrantPermission(ctx, "writer", key, "", both))
	must(c.RoleGrantPermission(ctx, "writer", key+"/", clientv3.GetPrefixRangeEnd(key+"/"), both))
	must(c.RoleGrantPermission(ctx, "reader", key, "", read))
	must(c.AuthEnable(ctx))
}
