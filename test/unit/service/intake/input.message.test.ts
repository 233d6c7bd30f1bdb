/** Guarantee: a message to an agent that lives has no options of a new agent: it is refused, not half heeded. */
import { expect, test } from "vitest";
import { inputOfEntry, inputOfJob } from "../../../../src/service/intake/input.ts";

const MESSAGE = { parent_id: "shell", prompt: "Look around.", agent_id: "reviewer" };
const entry = (more: Record<string, string>) => inputOfEntry(Object.entries({ ...MESSAGE, ...more }).flat());
const job = (more: Record<string, unknown>) => inputOfJob({ data: { ...MESSAGE, ...more } }, true);

test("a message that names options of a new agent is refused, and the sentence names them", () => {
  const refusal = expect.objectContaining({
    code: "invalid_input",
    message:
      'intake refused, nothing was done: a message to "reviewer" cannot change its keep_alive, model, tools: leave them out, or leave out agent_id for a new agent.',
  });
  expect(() => entry({ tools: "grep", model: "offline-1", keep_alive: "1" })).toThrow(refusal);
  expect(() => job({ tools: ["grep"], model: "offline-1", keep_alive: true })).toThrow(refusal);
});

test("a message may say all that does not concern the agent, and that it makes none", () => {
  const said = { request_key: "once", tenant: "acme", keep_alive: false };
  expect(entry({ ...said, keep_alive: "0", v: "1" })).toMatchObject({ ...MESSAGE, ...said });
  const asks = { profile: { model: "offline-1" }, default_model: "offline-2", schedule_id: "nightly" };
  expect(job({ ...said, ...asks, reply: "channel" })).toMatchObject({ ...MESSAGE, ...said });
});
