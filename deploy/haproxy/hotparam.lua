-- Asks the limiter sidecar about a request (check.dialect: forwarded) and sets variables of the transaction:
--   txn.hotparam.status            of the answer: 200, or 429 for a refusal; not set without a verdict
--   txn.hotparam.body              the problem document of a refusal
--   txn.hotparam.retry_after, txn.hotparam.ratelimit, txn.hotparam.ratelimit_policy
-- lua.cfg shows what is done with them.
local address = "http://127.0.0.1:8185/check"
local timeout = 100 -- milliseconds; then the request goes on without a verdict

-- Fields of the answer, and the variables that they are put into.
local fields = {
	["retry-after"] = "txn.hotparam.retry_after",
	["ratelimit"] = "txn.hotparam.ratelimit",
	["ratelimit-policy"] = "txn.hotparam.ratelimit_policy",
}

local function check(txn)
	-- Only these fields go to the sidecar. Add what rules name, such as User-Agent:
	--   ["user-agent"] = { txn.f:req_hdr("user-agent") or "" },
	local answer = core.httpclient():get{url = address, timeout = timeout, headers = {
		["x-forwarded-method"] = { txn.f:method() },
		["x-forwarded-uri"] = { txn.f:pathq() },
		["x-forwarded-host"] = { txn.f:req_hdr("host") or "" },
		["x-forwarded-for"] = { txn.f:src() },
		-- With a token: ["authorization"] = { "Bearer TOKEN" },
	}}
	if answer.status ~= 200 and answer.status ~= 429 then
		return -- 0: no answer
	end
	txn:set_var("txn.hotparam.status", answer.status)
	txn:set_var("txn.hotparam.body", answer.body or "")
	for field, variable in pairs(fields) do
		local values = answer.headers and answer.headers[field]
		if values then
			txn:set_var(variable, values[0])
		end
	end
end

core.register_action("hotparam", { "http-req" }, check, 0)
