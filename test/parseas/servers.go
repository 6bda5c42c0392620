package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// lab starts upstreams on free ports of the loopback and stops them.
type lab struct {
	dir, apps string // work directory with node_modules and py; the handlers
	addrs     map[string]string
	procs     []*exec.Cmd
}

// newLab returns a lab whose frameworks are in dir.
func newLab(dir string) (*lab, error) {
	apps, err := filepath.Abs("apps")
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	return &lab{dir: dir, apps: apps, addrs: map[string]string{}}, err
}

// start starts one upstream. An upstream that is not installed returns an error.
func (l *lab) start(ctx context.Context, name string) error {
	if app, ok := goApps[name]; ok {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		srv := &http.Server{Handler: app(), ReadHeaderTimeout: time.Minute}
		context.AfterFunc(ctx, func() { _ = srv.Close() })
		go func() { _ = srv.Serve(ln) }()
		l.addrs[name] = ln.Addr().String()
		return nil
	}
	if name == "fiber" {
		return l.startFiber(ctx)
	}
	if strings.HasPrefix(name, "nginx") {
		return l.startNginx(ctx, name)
	}
	number, err := freeport.Find()
	if err != nil {
		return err
	}
	port := strconv.Itoa(number)
	cmd, err := l.command(ctx, name, port)
	if err != nil {
		return err
	}
	return l.run(ctx, name, cmd, "127.0.0.1:"+port)
}

// command returns the command that serves an upstream that is a program of its own.
func (l *lab) command(ctx context.Context, name, port string) (*exec.Cmd, error) {
	at := "127.0.0.1:" + port
	python := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(l.dir, "py", "bin", "python"), append([]string{"-m"}, args...)...)
		cmd.Dir = l.apps
		cmd.Env = append(os.Environ(), "HOME="+l.dir, "PYTHONDONTWRITEBYTECODE=1")
		return cmd
	}
	ruby := func(app string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "puma", "-e", "production", "-q", "-b", "tcp://"+at,
			filepath.Join(l.apps, "rack.ru"))
		cmd.Env = append(os.Environ(), "APP="+app)
		return cmd
	}
	switch name {
	case "axum":
		return exec.CommandContext(ctx, filepath.Join(l.dir, "rust", "release", "topic"), port), nil
	case "spring-boot", "tomcat-servlet":
		class := map[string]string{"spring-boot": "topic.Spring", "tomcat-servlet": "topic.Tomcat"}[name]
		path := filepath.Join(l.dir, "java", "classes") + ":" + filepath.Join(l.dir, "java", "dependency", "*")
		return exec.CommandContext(ctx, "java", "-cp", path, class, port), nil
	case "express4", "express5", "koa-router", "fastify", "hono", "node-URL", "node-url.parse":
		cmd := exec.CommandContext(ctx, "node", filepath.Join(l.apps, "node.cjs"), name, port)
		cmd.Dir = filepath.Join(l.dir, "node")
		return cmd, nil
	case "django", "flask":
		return python("gunicorn", "--log-level", "critical", "--bind", at, name+"_app:app"), nil
	case "gunicorn-20.1>django", "gunicorn-20.1>flask":
		app := strings.TrimPrefix(name, "gunicorn-20.1>")
		cmd := python("gunicorn", "--log-level", "critical", "--bind", at, app+"_app:app")
		cmd.Env = append(cmd.Env, "PYTHONPATH="+filepath.Join(l.dir, "gunicorn20")) // goes before the packages of py
		return cmd, nil
	case "fastapi":
		return python("uvicorn", "--log-level", "critical", "--http", "httptools", "--port", port, "fastapi_app:app"),
			nil
	case "php-S":
		return exec.CommandContext(ctx, "php", "-S", at, filepath.Join(l.apps, "topic.php")), nil
	case "rack", "sinatra", "rails":
		return ruby(name), nil
	}
	return nil, errors.New("nothing here starts it")
}

// startFiber starts fiber, the only Go framework that does not use net/http.
func (l *lab) startFiber(ctx context.Context) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	app := fiberApp()
	context.AfterFunc(ctx, func() { _ = app.Shutdown() })
	go func() { _ = app.Listener(ln, fiber.ListenConfig{DisableStartupMessage: true}) }()
	l.addrs["fiber"] = ln.Addr().String()
	return nil
}

// startNginx starts nginx with all that is behind it, once.
func (l *lab) startNginx(ctx context.Context, name string) error {
	if l.addrs["express4"] == "" {
		if err := l.start(ctx, "express4"); err != nil {
			return fmt.Errorf("behind it: %w", err)
		}
	}
	_, express, _ := strings.Cut(l.addrs["express4"], ":")
	names := []string{"nginx", "nginx-fpm-php", "nginx-proxy>express4", "nginx-proxy-uri>express4"}
	words := []string{"@DIR@", l.dir, "@APPS@", l.apps, "@EXPRESS@", express}
	ports := make([]string, len(names))
	for i := range names {
		port, err := freeport.Find()
		if err != nil {
			return err
		}
		ports[i] = strconv.Itoa(port)
		words = append(words, fmt.Sprintf("@PORT%d@", i+1), ports[i])
	}
	for _, file := range []string{"nginx.conf", "fpm.conf"} {
		text, err := os.ReadFile(filepath.Join(l.apps, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(l.dir, file), []byte(strings.NewReplacer(words...).Replace(string(text))),
			0o600); err != nil {
			return err
		}
	}
	if fpm, _ := filepath.Glob("/usr/sbin/php-fpm*"); name == "nginx-fpm-php" {
		if len(fpm) == 0 {
			return errors.New("no php-fpm")
		}
		if err := l.spawn(exec.CommandContext(ctx, fpm[0], "-F", "-y", filepath.Join(l.dir, "fpm.conf"))); err != nil {
			return err
		}
	}
	at := "127.0.0.1:" + ports[indexOf(names, name)]
	return l.run(ctx, name, exec.CommandContext(ctx, "nginx", "-c", filepath.Join(l.dir, "nginx.conf")), at)
}

func indexOf(list []string, s string) int {
	for i := range list {
		if list[i] == s {
			return i
		}
	}
	return 0
}

func (l *lab) spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return err
	}
	l.procs = append(l.procs, cmd)
	return nil
}

// run starts a server and waits until its route answers.
func (l *lab) run(ctx context.Context, name string, cmd *exec.Cmd, at string) error {
	if err := l.spawn(cmd); err != nil {
		return err
	}
	for range 300 {
		if s := ask(ctx, at, &target{Target: "/topic?id=star", Means: "star"}); s == exact {
			l.addrs[name] = at
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not answer at %s", cmd.Path, at)
}

// wait waits for the processes, which end with the context.
func (l *lab) wait() {
	for _, p := range l.procs {
		_ = p.Wait() // they are killed
	}
}
