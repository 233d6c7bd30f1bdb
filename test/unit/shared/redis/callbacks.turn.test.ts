/** Guarantee: of all processes that send callbacks one reads the notes at a time, so that no callback is sent twice. */
import { expect, test } from "vitest";
import { newUid } from "../../../../src/shared/protocol/ids.ts";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { createCallbacks } from "../../../../src/shared/redis/callbacks.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";

test("while a process has its turn no other reads a note that is due; then the next one does", async () => {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const callbacks = createCallbacks(redis, keysUnder(uniquePrefix()));
  const agent = { tenant: "t", parentId: "p", uid: newUid() };
  await callbacks.note(agent, 0);
  const due = async (token: string) => (await callbacks.due(token, await callbacks.nowMs())).length;
  expect([await due("first"), await due("second"), await due("first")]).toEqual([1, 0, 1]);
  await callbacks.giveUp("second");
  expect(await due("second")).toBe(0);
  await callbacks.giveUp("first");
  expect(await due("second")).toBe(1);
});
