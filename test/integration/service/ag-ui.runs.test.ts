/** A client of AG-UI's stream that comes back gets no ends of one run of an agent in its next one. */
import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import { eventLine } from "../../../src/shared/protocol/reply.ts";
import { readEvents, startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";
import { wellDone } from "../verbs/rig.ts";

test("a step in which the client left is not ended once more when the agent's next run is handed back before it begins", async () => {
  const stage = await openStage();
  const { store } = stage;
  const agent = await stage.task("first", { keep_alive: true });
  const claim = async () => {
    const answer = await store.claim(agent, { claim_id: newRequestKey(), worker: "w" });
    return answer.status === "claimed" ? answer.epoch : expect.unreachable(answer.status);
  };
  const first = await claim();
  const began = eventLine([{ type: "turn_started", turn: 1 }]);
  await store.append(agent, { epoch: first, known: 0, running_ms: 1, entries: [["0", "{}"]], events: began });
  const [{ number } = { number: "0" }] = await stage.parent(agent.parentId).timeline(agent.agentId);
  const over = eventLine([{ type: "turn_finished", turn: 1, tokens: 1, cost_usd: 0 }]);
  const how = { target: "idle", ended_reason: undefined, natural: false, known: 1, events: over } as const;
  expect(await store.settle(agent, { ...wellDone(first), ...how })).toMatchObject({ agent_status: "queued" });
  const released = eventLine([{ type: "released", turn: 0, reason: "drain" }]);
  await store.release(agent, { epoch: await claim(), delay_ms: 0, running_ms: 1, events: released });
  const door = await startApi({ client: stage.client() });
  const told: unknown[] = [];
  for await (const { data } of readEvents(
    `${door.url}/v1/parents/${agent.parentId}/events?after=${number}`,
  )) {
    told.push([data.type, data.runId]);
    if (data.name === "released") break;
  }
  const [one, two] = [`${agent.agentId}.1`, `${agent.agentId}.2`];
  expect(told).toEqual([
    ["STEP_FINISHED", one],
    ["RUN_FINISHED", one],
    ["CUSTOM", two],
  ]);
});
