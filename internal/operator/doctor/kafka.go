package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// Kafka judges the topic of counts. create is true if programs create a missing topic.
func Kafka(in kafka.Inspection, create bool, want Expected) []Finding {
	l := &list{where: fmt.Sprintf("kafka %s, topic %s", strings.Join(in.Brokers, ","), in.Topic)}
	if in.Err != "" {
		l.addFailure(Finding{What: in.Err, Why: "counts are dropped: nothing becomes hot",
			Fix: "start the brokers, or fix kafka.brokers"})
		return l.findings
	}
	l.addOK("the cluster answers: %d brokers", in.Found)
	if in.Missing {
		level, why := Fail, "the programs do not create it (kafka.create is off): counts are dropped"
		if create {
			level, why = Warn, "the first program that starts creates it with the defaults of the cluster"
		}
		l.add(level, Finding{What: "the topic does not exist", Why: why,
			Fix: kafkaTool(in, "kafka-topics.sh",
				"--create --topic "+in.Topic+" --partitions 8 --config retention.ms=3600000")})
		return l.findings
	}
	l.kafkaTopic(in)
	l.kafkaSettings(in, want)
	l.kafkaGroup(in)
	for _, name := range slices.Sorted(maps.Keys(in.Unknown)) {
		l.addUnknown(name, in.Unknown[name])
	}
	return l.findings
}

func kafkaTool(in kafka.Inspection, tool, args string) string {
	return tool + " --bootstrap-server " + strings.Join(in.Brokers, ",") + " " + args
}

func (l *list) kafkaTopic(in kafka.Inspection) {
	switch {
	case in.Leaderless > 0:
		l.addFailure(Finding{What: fmt.Sprintf("%d of %d partitions have no leader", in.Leaderless, in.Partitions),
			Why: "counts of their keys are dropped",
			Fix: kafkaTool(in, "kafka-topics.sh", "--describe --unavailable-partitions")})
	case in.InSync < in.Replicas:
		l.addWarning(Finding{What: fmt.Sprintf("a partition has %d of %d copies up to date", in.InSync, in.Replicas),
			Why: "one more broker away and its counts are dropped",
			Fix: kafkaTool(in, "kafka-topics.sh", "--describe --under-replicated-partitions")})
	case in.Replicas < 2 && in.Found > 1:
		l.addWarning(Finding{What: "partitions have one copy, and the cluster has " + strconv.Itoa(in.Found) +
			" brokers",
			Why: "while a broker is away, the keys of its partitions are not counted",
			Fix: kafkaTool(in, "kafka-reassign-partitions.sh", "…   # replication factor 2 or 3")})
	default:
		l.addOK("%d partitions with %d copies, all up to date", in.Partitions, in.Replicas)
	}
	if in.Partitions == 1 {
		l.addWarning(Finding{What: "the topic has one partition", Why: "one aggregator counts, however many run",
			Fix: kafkaTool(in, "kafka-topics.sh", "--alter --topic "+in.Topic+" --partitions 8")})
	}
}

func (l *list) kafkaSettings(in kafka.Inspection, want Expected) {
	alter := func(setting string) string {
		return kafkaTool(in, "kafka-configs.sh", "--alter --entity-type topics --entity-name "+in.Topic+
			" --add-config "+setting)
	}
	before := len(l.findings)
	if policy := in.Settings["cleanup.policy"]; strings.Contains(policy, "compact") {
		l.addFailure(Finding{What: "cleanup.policy is " + policy,
			Why: "compaction keeps the last record of a key only: counts before it are thrown away",
			Fix: alter("cleanup.policy=delete")})
	}
	if ms, err := strconv.ParseInt(in.Settings["retention.ms"], 10, 64); err == nil && ms >= 0 {
		keep := time.Duration(ms) * time.Millisecond
		switch {
		case keep < want.Lateness:
			l.addFailure(Finding{What: fmt.Sprintf("retention.ms keeps records for %v", keep),
				Why: "an aggregator that restarts finds that counts are gone which still have a place in a window",
				Fix: alter("retention.ms=3600000")})
		case keep > 7*24*time.Hour:
			l.addWarning(Finding{What: fmt.Sprintf("retention.ms keeps records for %v", keep),
				Why: "counts are worth nothing after seconds; they only fill the disks",
				Fix: alter("retention.ms=3600000")})
		}
	}
	if in.Settings["message.timestamp.type"] == "LogAppendTime" {
		l.addWarning(Finding{What: "message.timestamp.type is LogAppendTime",
			Why: "records lose the time at which they were made: their delay cannot be seen",
			Fix: alter("message.timestamp.type=CreateTime")})
	}
	if n, err := strconv.ParseInt(in.Settings["max.message.bytes"], 10, 64); err == nil && n < kafka.MaxRecordBytes {
		l.addFailure(Finding{What: fmt.Sprintf("max.message.bytes is %d", n),
			Why: fmt.Sprintf("senders write up to %d: larger records are rejected and written again in smaller parts; "+
				"a single key that is too large is dropped", kafka.MaxRecordBytes),
			Fix: alter("max.message.bytes=" + strconv.Itoa(kafka.MaxRecordBytes+4096))})
	}
	if len(l.findings) == before && len(in.Settings) > 0 {
		l.addOK("the topic's settings lose no counts (cleanup.policy %s, retention.ms %s)",
			in.Settings["cleanup.policy"],
			in.Settings["retention.ms"])
	}
}

// maxLag is the number of records of a short delay. A larger lag is a finding.
const maxLag = 1000

func (l *list) kafkaGroup(in kafka.Inspection) {
	l.where = fmt.Sprintf("kafka %s, group %s", strings.Join(in.Brokers, ","), in.Group)
	describe := kafkaTool(in, "kafka-consumer-groups.sh", "--describe --group "+in.Group)
	if len(in.Strangers) > 0 {
		l.addFailure(Finding{What: "the group has members that are not aggregators of this namespace: client ids " +
			strings.Join(in.Strangers, ", "),
			Why: "each reads only a part of the partitions: the counts of the others are lost to it for ever",
			Fix: "kafka.group: a group of its own for each namespace   # " + describe + " --members"})
	}
	switch {
	case in.Members == 0:
		l.addWarning(Finding{What: "the group has no member", Why: "no aggregator reads counts: nothing becomes hot",
			Fix: "aggregator --kafka.brokers " + strings.Join(in.Brokers, ",")})
	case in.Members > in.Partitions:
		l.addWarning(Finding{What: fmt.Sprintf("the group has %d members for %d partitions", in.Members, in.Partitions),
			Why: "the others wait without work", Fix: kafkaTool(in, "kafka-topics.sh",
				fmt.Sprintf("--alter --topic %s --partitions %d", in.Topic, 2*in.Members))})
	case len(in.Strangers) == 0:
		l.addOK("%d aggregators read", in.Members)
	}
	if in.Lag > maxLag {
		l.addWarning(Finding{What: fmt.Sprintf("the group is %d records behind", in.Lag),
			Why: "counts that come later than detect.lateness are dropped: hot keys are found late or not at all",
			Fix: describe + "   # then start more aggregators"})
	}
}
