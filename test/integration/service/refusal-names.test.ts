/** Guarantee: the reply about an agent that was never made has the names that every reply has. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { tellRefusal } from "../../../src/service/intake/spawn.ts";
import { Uid } from "../../../src/shared/protocol/ids.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { testClient } from "../../helpers/parents.ts";
import { uniquePrefix } from "../../helpers/redis.ts";

test("a refusal of the intake names an agent in the form of a uid, and its reply as the end of that agent", async () => {
  const prefix = uniquePrefix();
  const client = testClient({ prefix });
  const parent = { tenant: "default", parentId: "planner-7" };
  await tellRefusal(client, { parent, requestKey: "wish" }, "1-1", new Error("no"));
  const { redis } = await internalsOf(client).open();
  const [entry] = await redis.xrange(keysUnder(prefix).parent(parent).replies, "-", "+");
  const flat = entry?.[1] ?? [];
  const field = (name: string) => flat[flat.indexOf(name) + 1];
  expect(Uid.safeParse(field("uid")).success).toBe(true);
  expect(field("reply_id")).toBe(`${field("uid")}.end`);
});
