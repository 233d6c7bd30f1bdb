/** Many readers of one parent's events share the work, and leave room for other work of their process. */
import { expect, test, vi } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { writeLines } from "../../helpers/event-lines.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";

const READERS = 30;
/** More than may wait for a reader. */
const LINES = 2_500;
const address = { tenant: "default", parentId: "planner-7" };

test("a message of the channel is parsed once for all readers, and each gets an event of its own", async () => {
  const prefix = uniquePrefix();
  const client = testClient({ prefix });
  const parent = testParent(client);
  await client.start();
  const readers = Array.from({ length: READERS }, () => parent.events());
  const { redis } = await internalsOf(client).open();
  const channel = keysUnder(prefix).parent(address).events;
  const messageOf = (text: string) =>
    JSON.stringify({ v: 1, type: "text_delta", agent_id: "a", name: "a", run: 1, turn: 1, text });
  let isHeard = false;
  const first = Promise.all(readers.map((reader) => reader.next())).then(() => {
    isHeard = true;
  });
  await until(async () => {
    await redis.publish(channel, messageOf("a first word"));
    return isHeard;
  });
  await first;
  const parsed = vi.spyOn(JSON, "parse");
  try {
    await redis.publish(channel, messageOf("a word"));
    const events = await Promise.all(
      readers.map(async (reader) => {
        for await (const event of reader)
          if (event.type === "text_delta" && event.text === "a word") return event;
        return undefined;
      }),
    );
    for (const event of events) expect(event).toMatchObject({ agent_id: "a", text: "a word" });
    expect(new Set(events).size).toBe(READERS);
    expect(parsed.mock.calls.filter(([text]) => text === messageOf("a word"))).toHaveLength(1);
  } finally {
    parsed.mockRestore();
  }
});

test("of many readers that begin at once few read a page at a time, and each gets every event", async () => {
  const prefix = uniquePrefix();
  const client = testClient({ prefix });
  const parent = testParent(client);
  await client.start();
  const { redis } = await internalsOf(client).open();
  const keys = keysUnder(prefix);
  await writeLines(redis, keys, address, { uids: [newUid()], each: 60 });
  let [reading, most] = [0, 0];
  const { xrange } = redis;
  const spied = vi.spyOn(redis, "xrange").mockImplementation(async (...args: unknown[]) => {
    most = Math.max(most, ++reading);
    return Reflect.apply(xrange, redis, args).finally(() => {
      reading -= 1;
    });
  });
  try {
    const all = await Promise.all(
      Array.from({ length: READERS }, async () => {
        const numbers: unknown[] = [];
        for await (const { number } of parent.events({ after: "0" })) if (numbers.push(number) === 60) break;
        return numbers;
      }),
    );
    for (const numbers of all) expect(numbers).toEqual(all[0]);
    expect(new Set(all[0]).size).toBe(60);
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(2);
  } finally {
    spied.mockRestore();
  }
});

test("a reader that waits for room goes on in a timeline where it stopped, and does not read it anew", async () => {
  const prefix = uniquePrefix();
  const client = testClient({ prefix });
  const parent = testParent(client);
  await client.start();
  const { redis } = await internalsOf(client).open();
  await writeLines(redis, keysUnder(prefix), address, { uids: [newUid()], each: LINES });
  const ranges = vi.spyOn(redis, "lrange");
  try {
    let read = 0;
    for await (const _ of parent.events({ after: "0" })) {
      // As many pages as may wait: then the reader has stopped.
      if (read === 0) await until(() => ranges.mock.calls.length >= 10);
      if (++read === LINES) break;
    }
    const begins = ranges.mock.calls.map(([, begin]) => Number(begin));
    expect(begins.length).toBeGreaterThanOrEqual(LINES / 100);
    expect(begins.filter((begin) => begin === 0)).toHaveLength(1);
  } finally {
    ranges.mockRestore();
  }
});
