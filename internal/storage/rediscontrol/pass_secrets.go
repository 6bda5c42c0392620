package rediscontrol

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

// secretSlack is how long the secret of a day outlives the passes of that day, because clocks differ.
const secretSlack = time.Hour

// AgreeOnSecrets returns the secrets that all limiters of the namespace have for the days of proposals. It stores the
// secret of a proposal, unless that is zero, for a day without a secret. It takes one round trip, or three if it
// stores any. With an error it returns the secrets that it has read.
func (f *Feed) AgreeOnSecrets(ctx context.Context, proposals []visitorpass.DaySecret) ([]visitorpass.DaySecret, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*f.timeout)
	defer cancel()
	agreed, err := f.readSecrets(ctx, proposals)
	if err != nil {
		return agreed, err
	}
	missing := slices.DeleteFunc(slices.Clone(proposals), func(d visitorpass.DaySecret) bool {
		return d.Secret == visitorpass.Secret{} || slices.ContainsFunc(agreed, func(a visitorpass.DaySecret) bool {
			return a.Day == d.Day
		})
	})
	if len(missing) == 0 {
		return agreed, nil
	}
	_, err = f.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, d := range missing {
			life := visitorpass.EndOfPasses(d.Day).Add(secretSlack).Sub(f.now())
			p.SetNX(ctx, f.keys.PassSecret(d.Day), d.Secret.Encode(), max(life, secretSlack))
		}
		return nil
	})
	if err != nil {
		return agreed, fmt.Errorf("rediscontrol: store a secret of passes: %w", err)
	}
	return f.readSecrets(ctx, proposals) // another limiter may have been first
}

// readSecrets returns the stored secrets of the days in list.
func (f *Feed) readSecrets(ctx context.Context,
	list []visitorpass.DaySecret) (held []visitorpass.DaySecret, err error) {
	keys := make([]string, len(list))
	for i, d := range list {
		keys[i] = f.keys.PassSecret(d.Day)
	}
	values, err := f.rdb.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("rediscontrol: read the secrets of passes: %w", err)
	}
	for i, v := range values {
		text, ok := v.(string)
		if !ok {
			continue // the day has no secret
		}
		secret, parseErr := visitorpass.ParseSecret(text)
		if parseErr != nil {
			err = fmt.Errorf("rediscontrol: %s: %w; another program wrote it: delete it", keys[i], parseErr)
			continue
		}
		held = append(held, visitorpass.DaySecret{Day: list[i].Day, Secret: secret})
	}
	return held, err
}
