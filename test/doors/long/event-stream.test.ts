/** Readers of a parent's event stream see every reply once, whatever becomes of their connections and of the API. */
import { expect, test } from "vitest";
import { readEvents } from "../../helpers/api.ts";
import { seeded } from "../../helpers/seeded.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";
import { type CommandLineApi, startCommandLineApi } from "../command-line-api.ts";

const SEED = Number(process.env.SEED ?? 12);
const READERS = 200;
const REPLIES = 30;
const KILLS = 6;

test(`${READERS} readers, a third of which reconnect at random, see ${REPLIES} replies once each while ${KILLS} API processes are killed`, {
  timeout: 600_000,
}, async () => {
  const stage = await openStage();
  await stage.startWorker();
  const apis: CommandLineApi[] = await Promise.all([startCommandLineApi(stage), startCommandLineApi(stage)]);
  const random = seeded(SEED);
  let reconnects = 0;
  const read = async (number: number): Promise<string[]> => {
    const ids: string[] = [];
    let last: string | undefined;
    for (let attempt = number; ids.length < REPLIES; attempt++) {
      const most = number % 3 === 0 ? random.between(1, 4) : REPLIES;
      const headers: Record<string, string> = last === undefined ? {} : { "last-event-id": last };
      let count = 0;
      try {
        const url = `${apis[attempt % apis.length]?.url}/v1/parents/crowd/replies`;
        for await (const { id, data } of readEvents(url, { headers })) {
          ids.push(data.reply_id);
          last = id;
          count += 1;
          if (count === most || ids.length === REPLIES) break;
        }
      } catch {
        // Its API was killed: it goes on at the other one, from the last event it has.
      }
      reconnects += 1;
    }
    return ids;
  };
  const begunMs = performance.now();
  const reading = Array.from({ length: READERS }, (_, number) => read(number));
  const parent = stage.parent("crowd");
  const { agent_id } = await parent.spawn({ name: "busy", keep_alive: true });
  for (let run = 1; run <= REPLIES; run++) {
    await parent.send(agent_id, "Say hello");
    await until(async () => (await parent.get(agent_id)).status === "idle", { timeoutMs: 60_000 });
    if (run % (REPLIES / KILLS) !== 0) continue;
    const victim = run % 2;
    await apis[victim]?.kill();
    apis[victim] = await startCommandLineApi(stage);
  }
  const expected: string[] = [];
  for await (const { reply_id } of parent.replies({ follow: false })) expected.push(reply_id);
  expect(new Set(expected)).toHaveProperty("size", REPLIES);
  for (const ids of await Promise.all(reading)) expect(ids).toEqual(expected);
  console.info(
    `seed ${SEED}: ${READERS} readers, ${REPLIES} replies, ${KILLS} kills, ${reconnects} connections, ${Math.round(performance.now() - begunMs)} ms`,
  );
});
