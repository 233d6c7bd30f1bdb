/** Guarantee: a watch that is over reads no more of the history, however much is left. */
import { expect, test, vi } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { writeLines } from "../../helpers/event-lines.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";

/** Several pages, and less than may wait for a reader. */
const LINES = 450;

test("a watch that ends while a page is read asks for no other page", async () => {
  const prefix = uniquePrefix();
  const client = testClient({ prefix });
  const parent = testParent(client);
  await client.start();
  const { redis } = await internalsOf(client).open();
  const address = { tenant: "default", parentId: "planner-7" };
  await writeLines(redis, keysUnder(prefix), address, { uids: [newUid()], each: LINES });
  let pages = 0;
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { xrange } = redis;
  const spied = vi.spyOn(redis, "xrange").mockImplementation(async (...args: unknown[]) => {
    if (++pages === 2) await held;
    return Reflect.apply(xrange, redis, args);
  });
  try {
    const events = parent.events({ after: "0" });
    await events.next();
    await until(() => pages === 2);
    await events.return?.();
    release();
    // Another page would be asked for behind one answer to the lines of this one.
    for (let trip = 0; trip < 20; trip++) await redis.ping();
    expect(pages).toBe(2);
  } finally {
    spied.mockRestore();
  }
});
