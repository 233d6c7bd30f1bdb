/** Guarantee: a server that has renamed INFO is refused at once with its own words; nothing waits for it for ever. */
import { expect, test } from "vitest";
import {
  closeRedis,
  openRedis,
  refuseWrongServer,
  whenAccepted,
} from "../../../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { startPrivateRedis } from "../../../../helpers/redis.ts";

test("a connection to a server that has renamed INFO is ready, and the check of the server fails", async () => {
  const server = await startPrivateRedis({ arguments: ["--rename-command", "INFO", "HIDDEN"] });
  const redis = openRedis(server.url, "worker");
  closeAtEnd(() => closeRedis(redis));
  await whenAccepted(redis);
  await expect(refuseWrongServer(redis)).rejects.toThrow(/unknown command '?info/i);
});
