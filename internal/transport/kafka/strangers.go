package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/hotparam/pipeline/internal/wait"
)

// checkMembersEvery is the interval at which a consumer checks the members of its group.
const checkMembersEvery = 5 * time.Second

// clientID returns the name by which brokers know a process of a namespace, in their logs and in the list of a group's
// members.
func clientID(namespace string) string {
	return strings.TrimSuffix("hotparam-"+namespace, "-")
}

// describeMembers returns the client ids of a group's members. It takes one round trip to the group's coordinator.
func describeMembers(client sarama.Client, group string) (ids []string, err error) {
	coordinator, err := client.Coordinator(group)
	if err != nil {
		return nil, err
	}
	answer, err := coordinator.DescribeGroups(&sarama.DescribeGroupsRequest{Groups: []string{group}})
	if err != nil {
		return nil, err
	}
	for _, g := range answer.Groups {
		if !errors.Is(g.Err, sarama.ErrNoError) {
			return nil, g.Err
		}
		for _, m := range g.Members {
			ids = append(ids, m.ClientId)
		}
	}
	return ids, nil
}

// strangersOf returns, sorted, the client ids of members that are not aggregators of a namespace.
func strangersOf(ids []string, namespace string) []string {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == clientID(namespace) })
	slices.Sort(ids)
	return slices.Compact(ids)
}

// watchMembers checks until ctx ends whether the group has members that are not aggregators of this namespace. They
// take partitions and read records that are not theirs, so that this namespace loses the counts of these partitions
// permanently, and the others lose theirs.
func (c *Consumer) watchMembers(ctx context.Context, client sarama.Client) {
	defer c.setStrangers(nil)
	wait.Every(ctx, checkMembersEvery, func() { c.inspectMembers(client) })
}

func (c *Consumer) inspectMembers(client sarama.Client) {
	ids, err := c.cfg.Open.Members(client, c.cfg.Group)
	if err != nil {
		// Brokers that do not answer, or do not permit the query, do not mean that there are strangers. The last result
		// is kept.
		return
	}
	c.setStrangers(strangersOf(ids, c.cfg.Namespace))
}

// setStrangers records the strangers, and logs a change of them.
func (c *Consumer) setStrangers(now []string) {
	before := c.strangers.Swap(&now)
	switch {
	case before == nil && len(now) == 0, before != nil && slices.Equal(*before, now):
	case len(now) > 0:
		c.cfg.Log.Error(c.CheckGroup().Error())
	default:
		c.cfg.Log.Info("kafka: the consumer group has only aggregators of this namespace", "group", c.cfg.Group)
	}
}

// CheckGroup returns an error while the group has members that are not aggregators of this namespace. It is safe for
// concurrent use.
func (c *Consumer) CheckGroup() error {
	others := c.strangers.Load()
	if others == nil || len(*others) == 0 {
		return nil
	}
	return fmt.Errorf("kafka: consumer group %q has members that are not aggregators of namespace %q (client ids %s): "+
		"they take partitions whose counts are lost here; give each namespace a group of its own (kafka.group)",
		c.cfg.Group, c.cfg.Namespace, strings.Join(*others, ", "))
}
