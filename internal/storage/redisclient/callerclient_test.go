package redisclient

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestConfig_TakesCredentialsOfCallersClient(t *testing.T) {
	t.Parallel()
	for _, mine := range []redis.UniversalClient{
		redis.NewClient(&redis.Options{Username: "anna", Password: "secret"}),
		redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, Username: "anna",
			Password: "secret"}),
	} {
		t.Cleanup(func() { _ = mine.Close() })
		_, o, err := Config{OptionsFrom: mine}.resolve()
		if err != nil || o.Username != "anna" || o.Password != "secret" || o.MaxRetries != -1 ||
			!o.ContextTimeoutEnabled {
			t.Errorf("%T: %+v, %v", mine, o, err)
		}
	}
}
