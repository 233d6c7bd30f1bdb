/** Readers that follow replies and events wait for no reader of another tenant. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { readEvents, startApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { openStage } from "../../stage/stage.ts";

/** More readers than read at a time. */
const READERS = 4;

test.for([
  ["replies?after=0-0", "replyLineOf"],
  ["events?after=0", "eventLineOf"],
] as const)("a stream of %s comes while pages of another tenant are read", async ([path, lineOf]) => {
  const stage = await openStage();
  const client = stage.client();
  const api = await startApi({ client });
  const parent = stage.parent("planner-7", { client });
  const lines = await internalsOf(client).open();
  const end = latch();
  const others = Array.from({ length: READERS }, () => lines[lineOf]("other")(() => end.opened));
  const { agent_id } = await parent.spawn({ name: "writer" });
  await parent.destroy(agent_id);
  const leaving = new AbortController();
  closeAtEnd(() => leaving.abort());
  const events = readEvents(`${api.url}/v1/parents/planner-7/${path}`, { signal: leaving.signal });
  expect((await events.next()).done).toBe(false);
  expect(end.isOpen).toBe(false);
  end.open();
  await Promise.all(others);
});
