local typedefs = require("kong.db.schema.typedefs")

return {
  name = "hotparam",
  fields = {
    { protocols = typedefs.protocols_http },
    {
      config = {
        type = "record",
        fields = {
          { feed = { type = "string", required = true, default = "127.0.0.1:8186" } },
          { check = { type = "string", required = true, default = "127.0.0.1:8185" } },
          { wait = { type = "integer", required = true, default = 100, gt = 0 } }, -- ms for a verdict
          { token = { type = "string", referenceable = true } },
        },
      },
    },
  },
}
