-- Requests of wrk in LibreTranslate's protocol: the lines of a file, one or several a request.
-- wrk -s requests.lua URL -- FILE SOURCE TARGET [LINES]; the last line of the output is a JSON object.

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

local function quoted(text)
  return '"' .. text:gsub('[%c"\\]', function(one)
    return string.format("\\u%04x", one:byte())
  end) .. '"'
end

function init(arguments)
  local lines, each = {}, tonumber(arguments[4] or 1)
  for line in io.lines(arguments[1]) do
    table.insert(lines, quoted(line))
  end
  bodies, current, statuses = {}, 0, {}
  for first = 1, #lines - each + 1, each do
    local text = table.concat(lines, ",", first, first + each - 1)
    if each > 1 then text = "[" .. text .. "]" end
    table.insert(bodies, string.format('{"q":%s,"source":"%s","target":"%s"}', text, arguments[2], arguments[3]))
  end
end

function request()
  current = current % #bodies + 1
  return wrk.format("POST", nil, { ["Content-Type"] = "application/json" }, bodies[current])
end

function response(status)
  statuses[status] = (statuses[status] or 0) + 1
end

function done(summary, latency)
  local counts, parts, errors = {}, {}, summary.errors
  for _, thread in ipairs(threads) do
    for status, count in pairs(thread:get("statuses")) do
      counts[status] = (counts[status] or 0) + count
    end
  end
  for status, count in pairs(counts) do
    table.insert(parts, string.format('"%d": %d', status, count))
  end
  io.write(string.format(
    '{"statuses": {%s}, "seconds": %f, "socket_errors": %d, "p50": %f, "p95": %f, "p99": %f}\n',
    table.concat(parts, ", "), summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3))
end
