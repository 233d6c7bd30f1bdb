/** Streams: many clients, some of which come and go. */
import { beforeAll, expect, test } from "vitest";
import { readEvents, startApi, type TestApi } from "../../helpers/api.ts";
import { seeded } from "../../helpers/seeded.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const CLIENTS = 200;
const REPLIES = 12;

let stage: Stage;
let api: TestApi;

beforeAll(async () => {
  stage = await openStage();
  await stage.startWorker();
  api = await startApi({ client: stage.client() });
});

test("200 clients, a third of which reconnect at random, see every reply once", async () => {
  const path = "/v1/parents/crowd/replies";
  const random = seeded(7);
  const seen = await Promise.all(
    Array.from({ length: CLIENTS }, async (_, i) => {
      const ids: string[] = [];
      let last: string | undefined;
      while (ids.length < REPLIES) {
        // A client that reconnects reads one to four replies at a time.
        const most = i % 3 === 0 ? random.between(1, 4) : REPLIES;
        const headers: Record<string, string> = last === undefined ? {} : { "last-event-id": last };
        let read = 0;
        for await (const { id, data } of readEvents(api.url + path, { headers })) {
          ids.push(data.reply_id);
          last = id;
          read += 1;
          if (read === most || ids.length === REPLIES) break;
        }
      }
      return ids;
    }).concat([makeReplies("crowd")]),
  );
  const expected = seen.pop();
  expect(new Set(expected)).toHaveProperty("size", REPLIES);
  for (const ids of seen) expect(ids).toEqual(expected);
});

/** Makes the replies; resolves to their ids in the order of the channel. */
async function makeReplies(parentId: string): Promise<string[]> {
  const parent = stage.parent(parentId);
  const { agent_id } = await parent.spawn({ name: "busy", keep_alive: true });
  for (let run = 1; run <= REPLIES; run++) {
    await parent.send(agent_id, "Say hello");
    await until(async () => (await parent.get(agent_id)).status === "idle");
  }
  return (await parent.newReplies()).entries.map(({ reply_id }) => reply_id);
}
