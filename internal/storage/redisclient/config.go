package redisclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/hotparam/pipeline/internal/textfile"
	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// Config holds the address of Redis and how to call it. The zero value of a field means its default.
type Config struct {
	// Addrs is one server, or some nodes of a cluster, each "host:port", "host" (port 6379) or "/path/of.sock". A
	// single address may also be a URL, which overrides the fields: redis://user:password@host:port/db, rediss:// with
	// TLS, unix:/path. Default 127.0.0.1:6379.
	Addrs []string
	// OptionsFrom, if set, is a client of the caller's, a *redis.Client or a *redis.ClusterClient. Its address,
	// credentials, TLS and dialer replace the fields of Config; the client itself is not used, see copyFromClient.
	OptionsFrom redis.UniversalClient
	Cluster     bool // the cluster protocol with a single address too; several are always a cluster
	Username    string
	Password    string
	// PasswordFile, if set, holds the password, which is read for each connection. While the file cannot be used, the
	// last password is sent.
	PasswordFile string
	DB           int            // the database number; a cluster has only 0
	TLS          bool           // with the system's authorities, and the name of the address
	TLSFiles     tlsfiles.Files // TLS with an authority, a certificate or a name of one's own
	// SentinelMaster is the name by which Sentinels know the master. With it Addrs are the addresses of the Sentinels
	// (default port 26379), and the other fields hold for the servers; TLS for both.
	SentinelMaster string
	// SentinelUsername and SentinelPassword are for the Sentinels themselves.
	SentinelUsername, SentinelPassword, SentinelPasswordFile string
	Namespace                                                string // 1 to 64 of A-Z a-z 0-9 . _ -; default "default"
	// Timeout bounds a call, including waiting for a connection, dialing, writing, reading and redirects of a cluster.
	// A context that ends sooner ends the call sooner. Default 1s.
	Timeout time.Duration
	// Budget is the shortest time that a caller of Take waits. A call without an answer for a quarter of it no longer
	// keeps others from being made. Default 20ms.
	Budget time.Duration
	// PoolSize is the maximum number of connections of a process. Default 16: callers share pipelines, so more
	// connections only cost Redis memory.
	PoolSize int
	// Dial, if set, makes the connections to servers and Sentinels, without TLS: tests have a network of their own.
	// OptionsFrom has a dialer already.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	Now  func() time.Time // the process clock, for written times and ages; default time.Now
	Log  *slog.Logger     // receives the beginning and the end of an outage; nil discards
}

const (
	defaultTimeout  = time.Second
	defaultBudget   = 20 * time.Millisecond
	defaultPoolSize = 16
	dialTimeout     = time.Second
)

// resolve fills in the defaults and checks everything, naming the field.
func (cfg Config) resolve() (Config, *redis.UniversalOptions, error) {
	if len(cfg.Addrs) == 0 {
		cfg.Addrs = []string{"127.0.0.1:6379"}
	}
	cfg.Namespace = cmp.Or(cfg.Namespace, "default")
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.Budget = cmp.Or(cfg.Budget, defaultBudget)
	cfg.PoolSize = cmp.Or(cfg.PoolSize, defaultPoolSize)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.OptionsFrom != nil {
		return cfg.resolveFromClient()
	}
	cfg, err := cfg.parseAddrs()
	if err != nil {
		return cfg, nil, err
	}
	if err := cfg.validate(); err != nil {
		return cfg, nil, err
	}
	if _, err := cfg.TLSFiles.Client(tlsSetting); err != nil {
		return cfg, nil, err
	}
	return cfg, cfg.clientOptions(), nil
}

// resolveFromClient resolves a Config that copies the address of a client of the caller's.
func (cfg Config) resolveFromClient() (Config, *redis.UniversalOptions, error) {
	o := cfg.clientOptions()
	if err := copyFromClient(o, cfg.OptionsFrom); err != nil {
		return cfg, nil, err
	}
	cfg.Addrs, cfg.DB, cfg.Cluster = o.Addrs, o.DB, o.IsClusterMode
	if err := cfg.validate(); err != nil {
		return cfg, nil, err
	}
	return cfg, o, nil
}

func (cfg Config) validate() error {
	switch {
	case !isValidNamespace(cfg.Namespace):
		return fmt.Errorf("redisclient: namespace %q must be 1 to 64 of A-Z a-z 0-9 . _ -", cfg.Namespace)
	case cfg.Timeout < time.Millisecond:
		return fmt.Errorf("redisclient: timeout %v must be at least 1ms", cfg.Timeout)
	case cfg.Budget < 0:
		return fmt.Errorf("redisclient: budget %v must be above 0", cfg.Budget)
	case cfg.PoolSize < 1:
		return fmt.Errorf("redisclient: pool size %d must be at least 1", cfg.PoolSize)
	case cfg.DB < 0:
		return fmt.Errorf("redisclient: db %d must be 0 or more", cfg.DB)
	case cfg.SentinelMaster != "" && cfg.Cluster:
		return errors.New("redisclient: Sentinels watch single servers, not a cluster; set one of both")
	case cfg.SentinelMaster == "" && cfg.SentinelUsername+cfg.SentinelPassword+cfg.SentinelPasswordFile != "":
		return errors.New(
			"redisclient: a user or password for Sentinels without sentinel_master, the name of the master that they watch")
	case cfg.DB != 0 && cfg.isCluster():
		return fmt.Errorf("redisclient: db %d: a cluster has only db 0", cfg.DB)
	}
	return nil
}

func (cfg Config) isCluster() bool {
	return cfg.SentinelMaster == "" && (cfg.Cluster || len(cfg.Addrs) > 1)
}

// clientOptions returns the options of short calls for waiting requests: no retries (callers decide how to treat a
// failure), no background traffic, no push messages.
func (cfg Config) clientOptions() *redis.UniversalOptions {
	o := &redis.UniversalOptions{
		Addrs:                 cfg.Addrs,
		IsClusterMode:         cfg.isCluster(),
		ClientName:            "hotparam",
		Username:              cfg.Username,
		Password:              cfg.Password,
		DB:                    cfg.DB,
		Protocol:              2, // every call would check for push messages of RESP3
		MaxRetries:            -1,
		DialTimeout:           max(dialTimeout, cfg.Timeout),
		DialerRetries:         1,
		ReadTimeout:           cfg.Timeout,
		WriteTimeout:          cfg.Timeout,
		PoolTimeout:           cfg.Timeout,
		ContextTimeoutEnabled: true,
		PoolSize:              cfg.PoolSize,
		PipelinePoolSize:      -1, // else ten connections beyond PoolSize, with buffers of 256 KiB each
		ConnMaxIdleTime:       5 * time.Minute,
		DisableIdentity:       true,

		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if cfg.PasswordFile != "" {
		o.CredentialsProviderContext = cfg.credentialsProvider()
	}
	o.Dialer = newWatchdog().watchedDialer(cfg.newDialer())
	return o
}

// credentialsProvider returns a function that reads the password for a new connection.
func (cfg Config) credentialsProvider() func(context.Context) (user, password string, err error) {
	file := &textfile.SecretFile{Path: cfg.PasswordFile}
	return func(context.Context) (string, string, error) {
		password, err := file.Read()
		if err == nil {
			return cfg.Username, password, nil
		}
		if cfg.Log != nil {
			cfg.Log.Warn("redis: the file of the password cannot be used; the password from before is sent", "err", err)
		}
		if password == "" {
			return "", "", fmt.Errorf("redisclient: the file of the password: %w", err)
		}
		return cfg.Username, password, nil
	}
}

// newDialer returns a function that makes connections, with TLS if it is configured.
func (cfg Config) newDialer() dialFunc {
	if cfg.Dial != nil {
		return cfg.Dial
	}
	if cfg.TLS || cfg.TLSFiles != (tlsfiles.Files{}) {
		// A call that ends before the handshake would not name the reason.
		return dialTLS(cfg.TLSFiles, max(dialTimeout, cfg.Timeout/2))
	}
	return redis.NewDialer(&redis.Options{DialTimeout: max(dialTimeout, cfg.Timeout)})
}

func isValidNamespace(s string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	return len(s) >= 1 && len(s) <= 64 && strings.Trim(s, allowed) == ""
}

// parseAddrs converts every address to host:port or the path of a socket.
func (cfg Config) parseAddrs() (Config, error) {
	port := "6379"
	if cfg.SentinelMaster != "" {
		port = "26379"
	} else if len(cfg.Addrs) == 1 && strings.Contains(cfg.Addrs[0], "://") {
		return cfg.parseURL(cfg.Addrs[0])
	}
	addrs := make([]string, len(cfg.Addrs))
	for i, a := range cfg.Addrs {
		addr, err := parseAddr(a, port)
		if err != nil {
			return cfg, err
		}
		addrs[i] = addr
	}
	cfg.Addrs = addrs
	return cfg, nil
}

func parseAddr(a, defaultPort string) (string, error) {
	if strings.Contains(a, "://") { // it may hold a password
		return "", errors.New("redisclient: only a single address, and no address of a Sentinel, may be a URL; write host:port")
	}
	if path := strings.TrimPrefix(a, "unix:"); strings.HasPrefix(path, "/") {
		return path, nil
	}
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		// The port is missing, or the address is an IPv6 address without brackets.
		host, port = strings.Trim(a, "[]"), defaultPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", fmt.Errorf("redisclient: address %q must be host:port", a)
		}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("redisclient: address %q: port %q is not 1 to 65535", a, port)
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n/?#@,") {
		return "", fmt.Errorf("redisclient: address %q has a bad host %q; it must be host:port", a, host)
	}
	return net.JoinHostPort(host, port), nil
}

// parseURL reads redis://, rediss:// and unix://. Its errors contain no part of the URL, because any part of it may
// belong to a password that is not escaped.
func (cfg Config) parseURL(raw string) (Config, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return cfg, errors.New("redisclient: address is not a valid URL; escape special characters in its password")
	}
	if u.User != nil {
		cfg.Username = u.User.Username()
		cfg.Password, _ = u.User.Password()
	}
	switch u.Scheme {
	case "unix":
		cfg.Addrs = []string{u.Path}
		if u.Host != "" || u.Path == "" {
			return cfg, errors.New("redisclient: an address with scheme unix must be unix:///path")
		}
		return cfg, nil
	case "redis", "rediss":
	default:
		return cfg, fmt.Errorf("redisclient: the scheme %q of an address must be redis, rediss or unix", u.Scheme)
	}
	cfg.TLS = cfg.TLS || u.Scheme == "rediss"
	if db := strings.Trim(u.Path, "/"); db != "" {
		if cfg.DB, err = strconv.Atoi(db); err != nil {
			return cfg, errors.New("redisclient: address: the path behind the host is not a database number; " +
				"escape special characters in the password")
		}
	}
	if u.RawQuery != "" {
		return cfg, errors.New("redisclient: address: options after ? are not read; " +
			"use the settings, and escape special characters in the password")
	}
	addr, err := parseAddr(u.Host, "6379")
	if err != nil {
		return cfg, errors.New("redisclient: address: the host of the URL cannot be read; " +
			"it must be redis://user:password@host:port/db")
	}
	cfg.Addrs = []string{addr}
	return cfg, nil
}
