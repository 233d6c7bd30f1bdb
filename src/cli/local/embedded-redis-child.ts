/**
 * The process of the embedded Redis; `embedded-redis.ts` starts it and receives the address.
 *
 * 1. Listens only on 127.0.0.1, on a free port, and requires a password that only its starter gets.
 * 2. Ends when the channel to its starter closes, even if the starter was killed.
 *
 * Holds all data in memory, writes no file.
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

/** The oldest supported server version, so that newer features are missing here too. */
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
