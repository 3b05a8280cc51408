-- Fragment: who holds a lock, for people. Included by each script that answers a waiter.

-- Returns "fence info" of the grant in the record, or '' when that is not the holder's.
local function whose(record, holder)
  local fence, granted, info = string.match(record or '', '<record: fence holder info>')
  return granted == holder and fence .. ' ' .. info or ''
end
