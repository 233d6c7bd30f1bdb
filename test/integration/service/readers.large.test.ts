/** Readers of a channel whose entries are large, or of which there are many: small pages, few at a time, and nothing missed. */
import { expect, test, vi } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { readEvents, startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const REPLIES = "/v1/parents/planner-7/replies";
const READERS = 30;

/** A door to a channel of `count` entries, each with `chars` characters more than a usual one. */
async function channelOf(count: number, chars: number) {
  const stage = await openStage();
  const client = stage.client();
  const api = await startApi({ client });
  const [parent, worker] = [stage.parent(), stage.scriptedWorker()];
  const { agent_id } = await parent.spawn({ name: "writer" });
  await parent.send(agent_id, "go");
  await worker.run(agent_id);
  const uid = await worker.uidOf(agent_id);
  const { replies } = stage.keys.parent({ tenant: "default", parentId: "planner-7" });
  const [[first, fields] = ["", []]] = await stage.redis.xrange(replies, "-", "+");
  await stage.redis.xdel(replies, first);
  for (let n = 0; n < count; n++) {
    const copied = fields.map((field, i) => {
      const copy = field.replaceAll(uid, `sa-copy-${n}`);
      return fields[i - 1] === "summary" ? copy + "x".repeat(chars) : copy;
    });
    await stage.redis.xadd(replies, "*", ...copied);
  }
  return { api, client };
}

test("a page of large entries ends early, and its cursor leads to the others", async () => {
  const { api } = await channelOf(10, 400_000);
  const seen: string[] = [];
  for (let after = "0-0"; ; ) {
    const { status, body } = await api.ask("GET", `${REPLIES}?limit=100&after=${after}`);
    expect(status).toBe(200);
    if (body.replies.length === 0) break;
    expect(body.replies.length).toBeLessThanOrEqual(4);
    seen.push(...body.replies.map(({ reply_id }: { reply_id: string }) => reply_id));
    after = body.cursor;
  }
  expect(seen).toHaveLength(10);
  expect(new Set(seen).size).toBe(10);
});

test("many clients that follow one channel read a few pages at a time, and each gets every entry", async () => {
  const { api, client } = await channelOf(120, 0);
  const { redis } = await internalsOf(client).open();
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
        const ids: (string | undefined)[] = [];
        const gone = new AbortController();
        for await (const { id } of readEvents(api.url + REPLIES, { signal: gone.signal }))
          if (ids.push(id) === 120) break;
        gone.abort();
        return ids;
      }),
    );
    for (const ids of all) expect(ids).toEqual(all[0]);
    expect(new Set(all[0]).size).toBe(120);
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(2);
  } finally {
    spied.mockRestore();
  }
});
