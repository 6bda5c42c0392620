package integration_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

const kafkaVersion = "3.9.1"

const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>hotparam</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + kafkaVersion + `</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId><version>1.7.36</version></dependency>
</dependencies></project>`

const log4j = `log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
`

// needServers skips a test, unless it was asked for. Then a missing program is an error.
func needServers(t *testing.T) {
	t.Helper()
	if os.Getenv("HOTPARAM_REQUIRE_SERVERS") != "1" {
		t.Skip("starts Apache Kafka: set HOTPARAM_REQUIRE_SERVERS=1, or run make integration")
	}
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: apt-get install default-jre-headless maven", err)
		}
	}
}

// libs returns the folder with Kafka's jars.
func libs(t *testing.T) string {
	t.Helper()
	return program.Fetch(t, "kafka-"+kafkaVersion, func(dir string) *exec.Cmd {
		work := t.TempDir()
		write(t, filepath.Join(work, "pom.xml"), pom)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		t.Cleanup(cancel)
		mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory="+dir)
		mvn.Dir = work
		return mvn
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// cluster is some brokers of Apache Kafka, the first of which is also the
// controller.
type cluster struct {
	t     *testing.T
	libs  string
	dir   string
	ports []int // of the brokers, then of the controller
	run   []*exec.Cmd
}

// start starts n brokers that keep n copies of everything.
func start(t *testing.T, n int) *cluster {
	t.Helper()
	needServers(t)
	c := &cluster{t: t, libs: libs(t), dir: t.TempDir(), ports: make([]int, n+1), run: make([]*exec.Cmd, n)}
	for i := range c.ports {
		c.ports[i] = freeport.Port(t)
	}
	write(t, c.path("log4j.properties"), log4j)
	for i := range n {
		write(t, c.path(fmt.Sprint(i, ".properties")), c.properties(i))
		format := c.java(i, "kafka.tools.StorageTool", "format", "-t", "aG90cGFyYW0tdGVzdC0wMA", "-c",
			c.path(fmt.Sprint(i, ".properties")))
		if out, err := format.CombinedOutput(); err != nil {
			t.Fatalf("format: %v\n%s", err, out)
		}
	}
	t.Cleanup(func() {
		for i := range c.run {
			c.stop(i)
		}
	})
	for i := range n {
		c.start(i)
	}
	for i := range n {
		c.ready(i)
	}
	return c
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) properties(i int) string {
	n := len(c.run)
	roles, listeners := "broker", fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", c.ports[i])
	if i == 0 {
		roles, listeners = "broker,controller", fmt.Sprintf("%s,CONTROLLER://127.0.0.1:%d", listeners, c.ports[n])
	}
	return strings.Join([]string{
		"process.roles=" + roles,
		fmt.Sprint("node.id=", i+1),
		fmt.Sprint("controller.quorum.voters=1@127.0.0.1:", c.ports[n]),
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"listeners=" + listeners,
		fmt.Sprint("advertised.listeners=PLAINTEXT://127.0.0.1:", c.ports[i]),
		"log.dirs=" + c.path(fmt.Sprint("data-", i)),
		fmt.Sprint("default.replication.factor=", n),
		fmt.Sprint("offsets.topic.replication.factor=", n),
		"offsets.topic.num.partitions=4",
		"auto.create.topics.enable=false",
		"group.initial.rebalance.delay.ms=0",
		"log.cleaner.dedupe.buffer.size=10485760",
		"num.network.threads=2", "num.io.threads=2",
	}, "\n")
}

func (c *cluster) java(i int, args ...string) *exec.Cmd {
	return exec.Command("java", append([]string{"-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dlog4j.configuration=file:" + c.path("log4j.properties"), "-cp", filepath.Join(c.libs, "*")}, args...)...)
}

// start starts broker i and does not wait for it.
func (c *cluster) start(i int) {
	c.t.Helper()
	out, err := os.OpenFile(c.path(fmt.Sprint(i, ".log")), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer out.Close()
	cmd := c.java(i, "kafka.Kafka", c.path(fmt.Sprint(i, ".properties")))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.run[i] = cmd
}

// stop ends broker i in good order, if it runs, and waits for its end.
func (c *cluster) stop(i int) {
	cmd := c.run[i]
	if cmd == nil {
		return
	}
	c.run[i] = nil
	_ = cmd.Process.Signal(syscall.SIGTERM)
	hard := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer hard.Stop()
	_ = cmd.Wait()
}

// ready waits until broker i answers for all others too.
func (c *cluster) ready(i int) {
	c.t.Helper()
	await(c.t, fmt.Sprint("broker ", i+1), func() bool {
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.address(i)))
		if err != nil {
			c.t.Fatal(err)
		}
		defer cl.Close()
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		meta, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
		if err != nil {
			return false
		}
		running := 0
		for _, cmd := range c.run {
			if cmd != nil {
				running++
			}
		}
		return len(meta.Brokers) >= running
	})
}

func (c *cluster) address(i int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(c.ports[i])) }

func (c *cluster) addresses() (all []string) {
	for i := range c.run {
		all = append(all, c.address(i))
	}
	return all
}

// do sends a request to the cluster.
func (c *cluster) do(f func(ctx context.Context, cl *kgo.Client) error) {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.addresses()...))
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	if err := f(ctx, cl); err != nil {
		c.t.Fatal(err)
	}
}

// await waits a minute for a condition that takes seconds on an idle machine.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	program.Await(t, time.Minute, what, ok)
}

// self returns a command that runs this test program again.
func self(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(program, args...)
}
