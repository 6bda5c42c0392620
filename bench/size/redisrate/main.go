// Redisrate limits each value of a parameter in Redis.
package main

import (
	"log"
	"net/http"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func main() {
	limiter := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}))
	log.Fatal(http.ListenAndServe("127.0.0.1:3000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res, err := limiter.Allow(r.Context(), r.URL.Query().Get("id"), redis_rate.PerSecond(100))
		if err == nil && res.Allowed == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		http.NotFound(w, r)
	})))
}
