-- Requests of wrk: the lines of a file, one a request, as LibreTranslate's protocol has it; prints a JSON object at the end.
-- wrk -s requests.lua URL -- FILE SOURCE TARGET

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

local function escaped(text)
  return (text:gsub('[%c"\\]', function(one)
    return string.format("\\u%04x", one:byte())
  end))
end

function init(arguments)
  bodies, current, other = {}, 0, 0
  for line in io.lines(arguments[1]) do
    table.insert(bodies, string.format('{"q":"%s","source":"%s","target":"%s"}',
      escaped(line), arguments[2], arguments[3]))
  end
end

function request()
  current = current % #bodies + 1
  return wrk.format("POST", nil, { ["Content-Type"] = "application/json" }, bodies[current])
end

statuses = ""
function response(status)
  if status ~= 200 then
    other = other + 1
    if other < 100 then statuses = statuses .. status .. " " end
  end
end

function done(summary, latency)
  local failures, first = 0, ""
  for _, thread in ipairs(threads) do
    failures = failures + thread:get("other")
    first = first .. thread:get("statuses")
  end
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %f, "not_200": %d, "statuses": "%s", "socket_errors": %d, "p50": %f, "p95": %f, "p99": %f}\n',
    summary.requests, summary.duration / 1e6, failures, first,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3))
end
