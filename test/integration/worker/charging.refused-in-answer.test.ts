/** Guarantee: what a provider refuses is not charged, also where the refusal is the content of a successful response. */
import { expect, test } from "vitest";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openStage } from "../../stage/stage.ts";
import {
  event,
  type Script,
  send,
  startProvider,
  stream,
} from "../../unit/worker/model/scripted-provider.ts";

const REFUSAL = { type: "error", error: { type: "timeout_error", message: "It took too long." } };

const FORMS: [string, Script][] = [
  ["an event", (response) => stream(response, event("error", REFUSAL))],
  [
    "a message",
    (response) => {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(REFUSAL));
    },
  ],
];

test.each(FORMS)(
  "a time-out that the provider reports by %s before it begins to answer costs nothing",
  async (_, refuse) => {
    const provider = await startProvider((response, request) => {
      if (provider.received.length === 1) refuse(response, request);
      else
        send(response, [{ type: "text", text: "done" }], { usage: { input_tokens: 900, output_tokens: 10 } });
    });
    const stage = await openStage();
    const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
    closeAtEnd(() => model.stop());
    await stage.startWorker({ model });
    const reply = await stage.parent("refused").task("work");
    expect(reply.summary).toBe("done");
    expect(reply.usage).toMatchObject({ input_tokens: 900, output_tokens: 10 });
    expect(provider.received).toHaveLength(2);
  },
);
