package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/IBM/sarama"
)

// Inspection holds the results of Inspect, which package doctor judges.
type Inspection struct {
	Brokers    []string // as configured
	Topic      string
	Group      string
	Err        string // why no broker answers; all other fields are then empty
	Found      int    // brokers of the cluster
	Missing    bool   // the topic does not exist
	Partitions int
	Replicas   int               // the minimum number of copies of a partition
	InSync     int               // the minimum number of copies that are up to date
	Leaderless int               // partitions without a leader
	Settings   map[string]string // relevant settings of the topic; "" if not reported
	Lag        int64             // number of records by which the group lags
	Members    int               // consumers of the group
	Strangers  []string          // client ids of members that are not aggregators of the namespace
	Unknown    map[string]string // questions without an answer, with the reason
}

// Inspect inspects the cluster without changing it. It ends with ctx.
func Inspect(ctx context.Context, cfg Config) (Inspection, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Inspection{}, err
	}
	in := Inspection{Brokers: cfg.Brokers, Topic: cfg.Topic, Group: cfg.Group, Settings: map[string]string{},
		Unknown: map[string]string{}}
	settings, err := cfg.saramaConfig()
	if err != nil {
		return in, err
	}
	settings.Admin.Retry.Max = 1
	settings.Metadata.Full = true // so that the brokers are known before the topic
	client, err := cfg.Open.Client(ctx, cfg.Brokers, settings)
	if err != nil {
		in.Err = fmt.Sprintf("kafka: cannot reach brokers %v: %v%s", cfg.Brokers, err, remedyOf(err))
		return in, nil
	}
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		in.Err = fmt.Sprintf("kafka: brokers %v: %v", cfg.Brokers, err)
		return in, client.Close()
	}
	defer admin.Close() // it also closes the client
	in.Found = len(client.Brokers())
	in.inspectTopic(client, admin)
	if !in.Missing {
		in.inspectSettings(admin)
		in.inspectGroup(client, admin, cfg.Namespace)
	}
	return in, nil
}

func (in *Inspection) inspectTopic(client sarama.Client, admin sarama.ClusterAdmin) {
	topics, err := admin.DescribeTopics([]string{in.Topic})
	if err == nil && len(topics) == 1 && topics[0].Err != sarama.ErrNoError {
		err = topics[0].Err
	}
	if errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		in.Missing = true
		return
	}
	if err != nil || len(topics) != 1 {
		in.Unknown["topic"] = fmt.Sprint(err)
		return
	}
	in.Found = max(in.Found, len(client.Brokers())) // they are known now
	in.Partitions = len(topics[0].Partitions)
	for i, p := range topics[0].Partitions {
		if p.Leader < 0 {
			in.Leaderless++
		}
		if i == 0 {
			in.Replicas, in.InSync = len(p.Replicas), len(p.Isr)
		}
		in.Replicas, in.InSync = min(in.Replicas, len(p.Replicas)), min(in.InSync, len(p.Isr))
	}
}

// inspectedSettings returns the names of the topic's settings that can break counting.
func inspectedSettings() []string {
	return []string{"cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type", "max.message.bytes",
		"min.insync.replicas", "compression.type", "segment.bytes", "segment.ms"}
}

func (in *Inspection) inspectSettings(admin sarama.ClusterAdmin) {
	topic := &sarama.ConfigResource{Type: sarama.TopicResource, Name: in.Topic, ConfigNames: inspectedSettings()}
	results, err := admin.DescribeConfigs([]*sarama.ConfigResource{topic}, sarama.DescribeConfigsOptions{})
	if err != nil {
		in.Unknown["settings of the topic"] = err.Error()
		return
	}
	for _, r := range results {
		if r.ErrorCode != sarama.ErrNoError {
			in.Unknown["settings of the topic"] = cmp.Or(r.ErrorMsg, r.ErrorCode.Error())
		}
		for _, e := range r.Configs {
			if slices.Contains(inspectedSettings(), e.Name) {
				in.Settings[e.Name] = e.Value
			}
		}
	}
}

func (in *Inspection) inspectGroup(client sarama.Client, admin sarama.ClusterAdmin, namespace string) {
	if in.Group == "" {
		return
	}
	groups, err := admin.DescribeConsumerGroups([]string{in.Group})
	if err != nil {
		in.Unknown["consumer group"] = err.Error()
	}
	var ids []string
	for _, g := range groups {
		in.Members += len(g.Members)
		for _, m := range g.Members {
			ids = append(ids, m.ClientId)
		}
	}
	in.Strangers = strangersOf(ids, namespace)
	partitions, err := client.Partitions(in.Topic)
	if err != nil {
		in.Unknown["partitions"] = err.Error()
		return
	}
	offsets, err := admin.ListConsumerGroupOffsets(in.Group, map[string][]int32{in.Topic: partitions})
	if err != nil {
		if !errors.Is(err, sarama.ErrGroupIDNotFound) {
			in.Unknown["positions of the group"] = err.Error()
		}
		return
	}
	for _, p := range partitions {
		end, err := client.GetOffset(in.Topic, p, sarama.OffsetNewest)
		if err != nil {
			in.Unknown["end of the topic"] = err.Error()
			return
		}
		if block := offsets.GetBlock(in.Topic, p); block != nil && block.Offset >= 0 {
			in.Lag += max(0, end-block.Offset)
		}
	}
}

// MaxRecordBytes is the largest record that a producer of this package sends.
const MaxRecordBytes = 1 << 20
