/** The stop reason of an answer stays, whatever comes behind it: without one the answer is paid for and bought again. */
import { expect, test } from "vitest";
import {
  ask,
  connect,
  event,
  hold,
  messageStart,
  startProvider,
  stream,
  textBlock,
} from "../scripted-provider.ts";

test.each([
  ["null", { stop_reason: null }],
  ["nothing", {}],
  ["a number", { stop_reason: 7 }],
])("a stop reason stays where the tokens come behind it, with %s as the reason", async (_, delta) => {
  const body =
    messageStart() +
    textBlock(0, "done") +
    event("message_delta", { delta: { stop_reason: "end_turn" } }) +
    event("message_delta", { delta, usage: { output_tokens: 7 } }) +
    event("message_stop");
  const model = connect(await startProvider((response) => stream(response, body)));
  expect(await model.call(ask(), hold())).toMatchObject({
    status: "answer",
    answer: { stopReason: "end_turn", usage: { output_tokens: 7 } },
  });
});
