-- Asks the limiter sidecar about a request (check.dialect: forwarded) through the section "check" of lua.cfg, and
-- answers the request if the sidecar refuses it. Without a verdict it sets txn.hotparam.error to the status of the
-- failed check (504: no answer in time, 0: none at all) and the request goes on.
local section = "abns@hotparam-check"

-- Fields of the sidecar's answer that clients get.
local fields = { "content-type", "cache-control", "vary", "retry-after", "ratelimit", "ratelimit-policy" }

-- Path and query of a target, also of one with scheme and host and no path.
local function target(url)
	url = url:gsub("^%a[%w+.-]*://[^/?#]*", "")
	return url:find("^[/*]") and url or "/" .. url
end

local function check(txn)
	-- Only these fields go to the sidecar. Add what rules name, such as User-Agent:
	--   ["user-agent"] = { txn.f:req_hdr("user-agent") or "" },
	local answer = core.httpclient():get{url = "http://127.0.0.1/check", dst = section, timeout = 5000, headers = {
		["x-forwarded-method"] = { txn.f:method() },
		["x-forwarded-uri"] = { target(txn.f:url()) },
		["x-forwarded-host"] = { txn.f:req_fhdr("host") or "" },
		["x-forwarded-for"] = { txn.f:src() },
		["accept"] = { txn.f:req_fhdr("accept") or "" },
		-- With a token: ["authorization"] = { "Bearer TOKEN" },
	}}
	local sent = answer.headers or {}
	if answer.status >= 400 and answer.status < 500 then
		local reply = txn:reply{status = answer.status, body = answer.body}
		for _, field in ipairs(fields) do
			if sent[field] then
				reply:add_header(field, sent[field][0])
			end
		end
		txn:done(reply)
	elseif answer.status ~= 200 then
		txn:set_var("txn.hotparam.error", answer.status)
		return
	end
	for _, field in ipairs({ "ratelimit", "ratelimit-policy" }) do
		if sent[field] then
			txn:set_var("txn.hotparam." .. field:gsub("-", "_"), sent[field][0])
		end
	end
end

core.register_action("hotparam", { "http-req" }, check, 0)
