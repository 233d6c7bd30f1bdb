/** The list of parents, as a client asks for it. */
import { expect, test } from "vitest";
import { parentMember } from "../../../src/shared/protocol/keys.ts";
import { openStage } from "../../stage/stage.ts";

test("a parent that was active before this process began is listed, unless a later time is named", async () => {
  const stage = await openStage();
  const parent = { tenant: "default", parentId: "of-old" };
  await stage.redis.zadd(stage.keys.parents, 1, parentMember(parent));
  const client = stage.client();
  expect(await client.parents()).toMatchObject([{ parent_id: "of-old" }]);
  expect(await client.parents({ since: new Date(2) })).toEqual([]);
});
