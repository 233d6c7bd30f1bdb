import { expect, test } from "vitest";
import { testClient, testParent } from "../../helpers/parents.ts";
import { uniquePrefix } from "../../helpers/redis.ts";

test("a spawn that is made again and would be refused by now names the tools that no worker has, and no other", async () => {
  const prefix = uniquePrefix();
  const input = {
    name: "a",
    tools: ["grep", "look_up_order"],
    limits: { max_turns: 9 },
    request_key: "k",
  };
  const first = await testParent(testClient({ prefix })).spawn(input);
  expect(first.unknown_tools).toEqual(["look_up_order"]);
  const later = testParent(testClient({ prefix, limits: { max_turns: 8 } }));
  expect(await later.spawn(input)).toEqual({ ...first, known: true });
});
