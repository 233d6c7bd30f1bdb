/** How much of a channel one ack reads, whatever it names. */
import { expect, test } from "vitest";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const PARENT = { tenant: "default", parentId: "planner-7" };
const MOST_PAGES = 10;
const COMMANDS_A_PAGE = 8;
/** Several pages more than an ack searches. */
const OTHERS = 1_300;

test("an ack of ids with and without a record reads no more of the channel than one of either", async () => {
  const stage = await openStage({ redis: "own" });
  const api = await startApi({ client: stage.client() });
  const { replies } = stage.keys.parent(PARENT);
  const { agent_id } = await stage.parent().spawn({ name: "early" });
  const uid = await stage.scriptedWorker().uidOf(agent_id);
  const adding = stage.observer.pipeline();
  for (let n = 0; n < OTHERS; n++) adding.xadd(replies, "*", "garbage", String(n));
  await adding.exec();
  const reads = async () =>
    Number(/^cmdstat_xrange:calls=(\d+)/m.exec(await stage.observer.info("commandstats"))?.[1] ?? 0);
  const ids = [`${uid}.i`, `${newUid()}.1`];
  const before = await reads();
  const { body } = await api.ask("POST", "/v1/parents/planner-7/replies/ack", { body: { reply_ids: ids } });
  expect(body).toEqual({ acked: [], already: [], not_reached: ids });
  expect((await reads()) - before).toBe(MOST_PAGES * COMMANDS_A_PAGE);
});
