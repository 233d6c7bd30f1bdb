/**
 * js-redis-server passes numbers from Lua to commands with 14 digits, Redis with 17. So times in microseconds and
 * the scores of BullMQ's delayed jobs would be rounded. Only this module changes that server from outside.
 */
import type { RedisServerState } from "js-redis-server/core";
import { SubagentError } from "../../shared/errors.ts";

/** Prefix of every script, on its first line, so that the line numbers of errors stay right. */
const EXACT_CALLS = `local redis = (function(server)
  local format, type, select, unpack = string.format, type, select, unpack
  local function exact(...)
    local arguments, count = { ... }, select('#', ...)
    for i = 1, count do
      if type(arguments[i]) == 'number' then arguments[i] = format('%.17g', arguments[i]) end
    end
    return unpack(arguments, 1, count)
  end
  return setmetatable({
    call = function(...) return server.call(exact(...)) end,
    pcall = function(...) return server.pcall(exact(...)) end,
  }, { __index = server })
end)(redis) `.replace(/\s+/g, " ");

/** A script whose answer shows how a number reached a command, and Redis' answer to it. */
export const NUMBER_PROOF = {
  script: "return redis.call('PING', 1730000000123456.5)",
  answer: "1730000000123456.5",
};

/**
 * Makes every later script of `state` pass numbers to commands as Redis does. Throws `setup_failed` if the server's
 * internals differ from the supported version.
 */
export async function writeLuaNumbersExactly(state: RedisServerState): Promise<void> {
  const runtime = await state.getLuaRuntime();
  const isShared = runtime === (await state.getLuaRuntime());
  if (!isShared || typeof runtime.eval !== "function") {
    throw new SubagentError("setup_failed", "js-redis-server runs Lua in another way than version 0.3.0.");
  }
  const run = runtime.eval.bind(runtime);
  const exactForms = new WeakMap<Buffer, Buffer>();
  runtime.eval = (script, ...rest) => {
    let exact = exactForms.get(script);
    if (!exact) {
      exact = Buffer.concat([Buffer.from(EXACT_CALLS), script]);
      exactForms.set(script, exact);
    }
    return run(exact, ...rest);
  };
}
