-- wrk: post one file repeatedly; the request is rendered once. Arguments after "--": the file.
init = function(args)
  local file = assert(io.open(args[1], "rb"))
  local body = file:read("*a")
  file:close()
  rendered = wrk.format("POST", nil, {
    ["Content-Type"] = "application/json",
    ["Accept"] = "application/json, */*",
    ["User-Agent"] = "kube-apiserver-admission",
  }, body)
end

request = function()
  return rendered
end

done = function(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '\nJSON {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"max_us":%d,' ..
    '"errors":{"status":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d}}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    e.status, e.connect, e.read, e.write, e.timeout))
end
