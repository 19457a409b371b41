-- deliveries: how often an entry was delivered. XCLAIM may set it to more than a number of Lua holds exactly.
local function deliveries_of(pending) return math.min(pending[4], 2 ^ 53) end
