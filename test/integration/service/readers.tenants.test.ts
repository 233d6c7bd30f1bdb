/** Readers that follow events wait for no reader of another tenant. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { readEvents, startApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { openStage } from "../../stage/stage.ts";

/** More readers than read at a time. */
const READERS = 4;

test("a stream of events comes while pages of another tenant are read", async () => {
  const stage = await openStage();
  const client = stage.client();
  const api = await startApi({ client });
  const parent = stage.parent("planner-7", { client });
  const { eventLineOf } = await internalsOf(client).open();
  const end = latch();
  const others = Array.from({ length: READERS }, () => eventLineOf("other")(() => end.opened));
  const { agent_id } = await parent.spawn({ name: "writer" });
  await parent.destroy(agent_id);
  const leaving = new AbortController();
  closeAtEnd(() => leaving.abort());
  const events = readEvents(`${api.url}/v1/parents/planner-7/events?after=0`, { signal: leaving.signal });
  expect((await events.next()).done).toBe(false);
  expect(end.isOpen).toBe(false);
  end.open();
  await Promise.all(others);
});
