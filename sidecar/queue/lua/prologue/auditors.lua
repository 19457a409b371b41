-- auditors: reads fields of the hash of auditors, names and values in turns. Each pod that ever was has left a field there, so of more
-- than AUDITORS fields a script reads some, each time others: `now` is the cursor. Returns them, and how many fields the hash has.
local AUDITORS = 256
local function some_auditors(auditors, now)
    local count = redis.call('HLEN', auditors)
    if count <= AUDITORS then return redis.call('HGETALL', auditors), count end
    return redis.call('HSCAN', auditors, now, 'COUNT', AUDITORS)[2], count
end
