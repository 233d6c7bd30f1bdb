/** Guarantee: a client keeps the options that it was made with, whatever its caller makes of the object afterwards. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import "../../../src/producer/client-resources.ts";
import { createClient } from "../../../src/producer/client.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

test("a client does not open the address that its options name later for another client", async () => {
  const options = { redisUrl: "redis://127.0.0.1:1", prefix: "first", workspaceRoot: "/first" };
  const client = createClient(options);
  closeAtEnd(() => client.stop());
  Object.assign(options, { redisUrl: "redis://127.0.0.1:2", workspaceRoot: "/second" });
  const { redis, workspaceRoot } = await internalsOf(client).open();
  expect(redis.options).toMatchObject({ port: 1 });
  expect(workspaceRoot).toBe("/first");
});
