-- report_ids: identifies the text of a report: its SHA-1, or of a large text the SHA-1 of its head, ':' and its length. Nobody
-- reads a text behind its head, and the SHA-1 of a very large text takes Redis long.
local REPORT_HEAD = 65536
local function report_id(text)
    if #text <= REPORT_HEAD then return redis.sha1hex(text) end
    return redis.sha1hex(string.sub(text, 1, REPORT_HEAD)) .. string.format(':%.0f', #text)
end
