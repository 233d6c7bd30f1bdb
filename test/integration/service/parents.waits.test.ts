/** What every run of an installation waits for, in the list of parents. */
import { expect, test } from "vitest";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

test("the list of parents names a missing worker while an agent is queued, and a pause with its reason", async () => {
  const stage = await openStage();
  const client = stage.client();
  const api = await startApi({ client });
  const waits = async () => (await api.ask("GET", "/v1/parents")).body.waits;
  const parent = stage.parent("alone");
  await parent.spawn({ name: "idler" });
  expect(await waits()).toBeUndefined();
  await parent.send("idler", "Say hello");
  expect(await waits()).toEqual({ for: "worker" });
  const { at } = await client.pause("too dear");
  expect(await waits()).toEqual({ for: "resume", since: at, reason: "too dear" });
  await client.resume();
  await stage.startWorker();
  expect(await waits()).toBeUndefined();
});
