package fleet

import (
	"bufio"
	"cmp"
	"encoding/gob"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	kafkaNode       = "kafka"
	kafkaPartitions = 4
	sessionTimeout  = 10 * time.Second
	fetchWait       = 100 * time.Millisecond
)

// Kafka is a model of the parts of a cluster that package kafka uses: a topic, and a group with cooperative
// rebalancing. It keeps every record that it has confirmed. Its clients are models too (kafka_client_test.go), because
// the clients of sarama hold a mutex while they wait for a broker, and virtual time stops while a goroutine waits for a
// mutex.
type Kafka struct {
	net    *Network
	static bool // members keep their partitions over a restart
	freezer

	mu         sync.Mutex // guards the rest
	partitions []*partition
	members    []*groupMember // by when they joined
}

// partition is a log. Producers number their records, so that a record that is written again has the same value.
type partition struct {
	records    []kafkaRecord
	grown      chan struct{} // closed when a record comes
	leaderless bool
	committed  int64        // offset, or -1 if unset
	holder     *groupMember // its reader, or nil
}

type kafkaRecord struct {
	Partition int32
	At        int64 // by the clock of the producer, Unix milliseconds
	Value     []byte
}

// groupMember is a member of the group. It receives the partitions of its target that no other member still holds.
type groupMember struct {
	id, instance string
	target       []int
	silence      *time.Timer // removes it
}

// kafkaRequest is a request of a client. Each kind uses some of the fields.
type kafkaRequest struct {
	Kind             string
	Partition        int32
	Offset           int64
	Since            int64 // Unix milliseconds, or sarama.OffsetNewest
	Records          []kafkaRecord
	Member, Instance string
	Held             [kafkaPartitions]bool
	Marks            [kafkaPartitions]int64 // -1: none
}

type kafkaAnswer struct {
	Err     sarama.KError
	Errs    []sarama.KError // of the records written
	Records []kafkaRecord
	Offset  int64
	End     int64
	Held    [kafkaPartitions]bool // the partitions that the member may read
	Offsets [kafkaPartitions]int64
}

func newKafka(n *Network, static bool) *Kafka {
	k := &Kafka{net: n, static: static}
	for range kafkaPartitions {
		k.partitions = append(k.partitions, &partition{grown: make(chan struct{}), committed: -1})
	}
	return k
}

// connect opens a connection from a node.
func (k *Kafka) connect(node string) (net.Conn, error) {
	mine, theirs, err := k.net.Connect(node, kafkaNode)
	if err == nil {
		go k.serve(theirs)
	}
	return mine, err
}

func (k *Kafka) serve(conn net.Conn) {
	defer conn.Close()
	out := bufio.NewWriter(conn)
	from, to := gob.NewDecoder(conn), gob.NewEncoder(out)
	for {
		var r kafkaRequest
		if from.Decode(&r) != nil {
			return
		}
		k.awaitThaw()
		if r.Kind == "fetch" {
			k.awaitRecord(r)
		}
		if to.Encode(k.answer(r)) != nil || out.Flush() != nil {
			return
		}
	}
}

// awaitRecord waits, as a broker does that has nothing to send.
func (k *Kafka) awaitRecord(r kafkaRequest) {
	k.mu.Lock()
	p := *k.partitions[r.Partition]
	k.mu.Unlock()
	if int(r.Offset) < len(p.records) || p.leaderless {
		return
	}
	timer := time.NewTimer(fetchWait)
	defer timer.Stop()
	select {
	case <-p.grown:
	case <-timer.C:
	}
}

func (k *Kafka) answer(r kafkaRequest) (a kafkaAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.partitions[r.Partition]
	a.End = int64(len(p.records))
	switch r.Kind {
	case "metadata":
	case "write":
		for _, record := range r.Records {
			a.Errs = append(a.Errs, k.partitions[record.Partition].write(record))
		}
	case "offset":
		switch a.Offset = a.End; {
		case p.leaderless:
			a.Err = sarama.ErrLeaderNotAvailable
		case r.Since != sarama.OffsetNewest:
			a.Offset = int64(slices.IndexFunc(p.records, func(record kafkaRecord) bool { return record.At >= r.Since }))
		}
	case "fetch":
		if p.leaderless {
			a.Err = sarama.ErrNotLeaderForPartition
		} else if r.Offset < a.End {
			a.Records = p.records[r.Offset:min(a.End, r.Offset+100)]
		}
	case "join":
		k.join(r)
		fallthrough
	case "heartbeat":
		a.Err = k.heartbeat(r, &a)
	case "commit":
		for i, p := range k.partitions {
			if p.holder != nil && p.holder.id == r.Member && r.Marks[i] >= 0 {
				p.committed = r.Marks[i]
			}
		}
	case "leave":
		k.remove(r.Member)
	default:
		panic("fleet: Kafka has no " + r.Kind)
	}
	return a
}

func (p *partition) write(record kafkaRecord) sarama.KError {
	if p.leaderless {
		return sarama.ErrNotLeaderForPartition
	}
	p.records = append(p.records, record)
	close(p.grown)
	p.grown = make(chan struct{})
	return sarama.ErrNoError
}

// join adds a member. A member with the instance's name of an earlier member replaces it.
func (k *Kafka) join(r kafkaRequest) {
	i := slices.IndexFunc(k.members, func(m *groupMember) bool {
		return m.id == r.Member || m.instance != "" && m.instance == r.Instance
	})
	if i < 0 {
		m := &groupMember{id: r.Member, instance: r.Instance}
		m.silence = time.AfterFunc(sessionTimeout, func() { k.expire(m) })
		k.members = append(k.members, m)
		k.balance()
		return
	}
	m := k.members[i]
	m.id = r.Member
	for _, p := range k.partitions {
		if p.holder == m {
			p.holder = nil
		}
	}
}

// heartbeat records the partitions that a member holds, and assigns it those partitions of its target that no other
// member holds.
func (k *Kafka) heartbeat(r kafkaRequest, a *kafkaAnswer) sarama.KError {
	i := slices.IndexFunc(k.members, func(m *groupMember) bool { return m.id == r.Member })
	if i < 0 {
		return sarama.ErrUnknownMemberId
	}
	m := k.members[i]
	m.silence.Reset(sessionTimeout)
	for i, p := range k.partitions {
		if p.holder == m && !r.Held[i] {
			p.holder = nil
		}
		if slices.Contains(m.target, i) && (p.holder == nil || p.holder == m) {
			p.holder = m
			a.Held[i] = true
		}
		a.Offsets[i] = p.committed
	}
	return sarama.ErrNoError
}

// expire removes a member that was silent. It removes no member while the coordinator is away.
func (k *Kafka) expire(m *groupMember) {
	k.awaitThaw()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.net.isDead(kafkaNode) {
		m.silence.Reset(sessionTimeout)
		return
	}
	k.remove(m.id)
}

// remove and balance require k.mu.
func (k *Kafka) remove(id string) {
	k.members = slices.DeleteFunc(k.members, func(m *groupMember) bool {
		if m.id != id {
			return false
		}
		m.silence.Stop()
		for _, p := range k.partitions {
			if p.holder == m {
				p.holder = nil
			}
		}
		return true
	})
	k.balance()
}

// balance sets the target of each member to its share of the partitions. As few partitions as possible move.
func (k *Kafka) balance() {
	var free []int
	for i := range k.partitions {
		if !slices.ContainsFunc(k.members, func(m *groupMember) bool { return slices.Contains(m.target, i) }) {
			free = append(free, i)
		}
	}
	n := len(k.members)
	by := slices.SortedStableFunc(slices.Values(k.members), func(a, b *groupMember) int {
		return cmp.Compare(len(b.target), len(a.target))
	})
	for i, m := range by {
		part := (kafkaPartitions + n - 1 - i) / n
		for len(m.target) > part {
			free = append(free, m.target[len(m.target)-1])
			m.target = m.target[:len(m.target)-1]
		}
	}
	for i, m := range by {
		part := (kafkaPartitions + n - 1 - i) / n
		for len(m.target) < part {
			m.target = append(m.target, free[0])
			free = free[1:]
		}
	}
}

// Leaderless makes a partition refuse reads and writes for a while.
func (k *Kafka) Leaderless(i int, d time.Duration) {
	set := func(is bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.partitions[i].leaderless = is
	}
	set(true)
	time.AfterFunc(d, func() { set(false) })
}
