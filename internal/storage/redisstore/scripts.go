package redisstore

import (
	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/lua"
)

// scripts are run by their digest; a server that does not know one, after a
// restart, is sent its text (one round trip more, once).
type scripts struct {
	claimHot         *redis.Script
	publishHot       *redis.Script
	writeOverride    *redis.Script
	restoreOverrides *redis.Script
	writeReport      *redis.Script
	clThrottle       *redis.Script
	inFlight         *redis.Script
	exchange         *redis.Script
}

func loadScripts() scripts {
	return scripts{
		claimHot:         redis.NewScript(lua.ClaimHot()),
		publishHot:       redis.NewScript(lua.PublishHot()),
		restoreOverrides: redis.NewScript(lua.RestoreOverrides()),
		writeOverride:    redis.NewScript(lua.WriteOverride()),
		writeReport:      redis.NewScript(lua.WriteReport()),
		clThrottle:       redis.NewScript(lua.CLThrottle()),
		inFlight:         redis.NewScript(lua.InFlight()),
		exchange:         redis.NewScript(lua.Exchange()),
	}
}
