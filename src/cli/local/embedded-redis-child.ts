/**
 * The process of the embedded Redis; `embedded-redis.ts` starts it and is told the address.
 *
 * 1. Listens on 127.0.0.1 alone, on a free port, and wants a password that only the starter learns.
 * 2. Ends when the channel to its starter closes, however that one ended.
 *
 * Holds everything in memory, writes no file.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import {
  attachSession,
  createRedisCommandExecutor,
  RedisServerState,
  SocketConnectionTransport,
} from "js-redis-server/core";
import { writeLuaNumbersExactly } from "./embedded-lua-numbers.ts";

/** The oldest server that we support: what is newer shall be missing here too. */
const COMPATIBILITY = "redis-7.0";

process.once("disconnect", () => process.exit());

const password = randomBytes(24).toString("hex");
const state = new RedisServerState({ requirepass: password, compatibility: COMPATIBILITY });
const executor = createRedisCommandExecutor({ compatibility: COMPATIBILITY });
await writeLuaNumbersExactly(state);

const logger = { error: (problem: unknown) => console.error(problem) };
const listener = createServer({ keepAlive: true, noDelay: true }, (socket) => {
  const clientAddress = `${socket.remoteAddress}:${socket.remotePort}`;
  attachSession(new SocketConnectionTransport(socket), { state, executor, logger, clientAddress });
});
listener.listen(0, "127.0.0.1");
await once(listener, "listening");
const address = listener.address();
if (address !== null && typeof address === "object") {
  process.send?.({ url: `redis://:${password}@127.0.0.1:${address.port}` });
}
