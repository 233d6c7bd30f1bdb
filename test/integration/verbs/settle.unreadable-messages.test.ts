/** Guarantee: whatever another program left in an inbox, its agent can be ended, and the reply names each message whose id can be read. */
import { expect, test } from "vitest";
import { DESTROY, verbRig } from "./rig.ts";

/** Half a character: Lua's decoder refuses the whole message. */
const HALF = '"text":"\\ud83d"';

test.each([
  ["a number", "7", undefined],
  ["null", "null", undefined],
  ["a text", '"message_id"', undefined],
  ["half a character and no id", `{${HALF}}`, undefined],
  ["half a character, and an id that is no text", `{${HALF},"message_id":7}`, undefined],
  ["half a character in the id", '{"message_id":"\\ud83d"}', undefined],
  ["half a character, and an end within the id", `{${HALF},"message_id":"m-1`, undefined],
  ["half a character, and blanks around the colon", `{${HALF},"message_id" \n:\t "m-1"}`, "m-1"],
  ["half a character, and escapes in the id", `{"message_id":"m\\u002d\\"1\\\\",${HALF}}`, 'm-"1\\'],
])("a message that is %s keeps no agent from its end", async (_, stored, id) => {
  const { redis, keys, store, parent, spawn, send } = verbRig();
  const agent = await spawn();
  await send(agent, "look", "first");
  await redis.rpush(keys.agent(agent).inbox, stored);
  expect((await store.settle(agent, DESTROY)).status).toBe("settled");
  const [entry] = await redis.xrange(keys.parent(parent).replies, "-", "+");
  const undelivered = entry?.[1][entry[1].indexOf("undelivered") + 1];
  expect(JSON.parse(undelivered ?? "")).toEqual(["first", ...(id === undefined ? [] : [id])]);
});
