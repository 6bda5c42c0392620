package gateways

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// pluginConf is an nginx that calls a plugin as Kong or APISIX do, with the parts of them that the plugin uses.
const pluginConf = `
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
pcre_jit on;
events {}
http {
	include {keys};
	lua_package_path "{deploy}/nginx/?.lua;;";
	lua_socket_log_errors off;
	init_by_lua_block {
		local deploy, feed, check, wait = "{deploy}", "{feed}", "{check}", {wait}
		{load}
	}
	upstream app {
		server {app};
		keepalive 64;
	}
	proxy_http_version 1.1;
	server {
		listen 127.0.0.1:{front};
		location / {
			access_by_lua_block { return decide() }
			log_by_lua_block { ended() }
			proxy_pass http://app;
			proxy_ignore_client_abort on;
			proxy_set_header Connection "";
			proxy_set_header Host $http_host;
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}
	server {
		listen 127.0.0.1:8187;
		location / { content_by_lua_block { require("hotparam").status() } }
	}
}
`

// plugins holds the Lua code that loads each plugin.
var plugins = map[string]string{
	"Kong": `
		package.preload["kong.db.schema.typedefs"] = function() return { protocols_http = {} } end
		local plugin, conf = dofile(deploy .. "/kong/hotparam/handler.lua"), {}
		for _, field in ipairs(dofile(deploy .. "/kong/hotparam/schema.lua").fields[2].config.fields) do
			local name, of = next(field)
			conf[name] = of.default
		end
		conf.feed, conf.check, conf.wait = feed, check, wait
		function decide() return plugin:access(conf) end
		function ended() return plugin:log(conf) end
	`,
	"APISIX": `
		package.preload["apisix.core"] = function()
			return { schema = { check = function(schema, conf)
				for name, of in pairs(schema.properties) do
					if conf[name] == nil then conf[name] = of.default end
				end
				return true
			end } }
		end
		local plugin, conf = dofile(deploy .. "/apisix/hotparam.lua"), { feed = feed, check = check, wait = wait }
		plugin.check_schema(conf)
		function decide() return plugin.access(conf, {}) end
		function ended() return plugin.log(conf, {}) end
	`,
}

// decidingPlugin is nginx with a plugin.
func decidingPlugin(name string) deciding {
	return deciding{
		name: name, listen: decidingNginx.listen, keys: "nginx", asked: decidingNginx.asked, reload: syscall.SIGHUP,
		start: func(t *testing.T, p places, keys string, replace ...string) *exec.Cmd {
			t.Helper()
			path, dir := luaNginx(t), t.TempDir()
			deploy, err := filepath.Abs(deployDir())
			if err != nil {
				t.Fatal(err)
			}
			wait := "100"
			if p.patient {
				wait = "5000"
			}
			replace = append(replace, "{keys}", keys, "{deploy}", deploy, "{feed}", p.edge, "{check}", p.limiter,
				"{wait}", wait, "{app}", p.app, "{front}", p.front, "{load}", plugins[name])
			config := written(t, "nginx.conf", strings.NewReplacer(replace...).Replace(pluginConf))
			return exec.Command(path, "-p", dir, "-e", "stderr", "-c", config, "-g",
				fmt.Sprintf("daemon off; pid %s/pid;", dir))
		},
		workers: func(int) []string { return nil }, // a worker begins to poll by its first request
	}
}

// pluginKind is a plugin among the gateways.
func pluginKind(name string) kind {
	d := decidingPlugin(name)
	return kind{
		limiter: kinds["nginx that decides itself"].limiter, command: d.byRules,
		differences: differences{fields: true, allowed: true, refused: spellings},
		silence:     []string{"return decide()", ""}, decides: true,
	}
}
