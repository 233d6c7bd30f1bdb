/**
 * The stop reason of an answer stays, whatever comes behind it: without one the answer is paid for and bought again. Only an end
 * with calls is none.
 */
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
  toolBlock,
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

test.each([
  ["end_turn", "tool_use"],
  ["stop_sequence", "stop_sequence"],
  ["max_tokens", "max_tokens"],
])("an answer with a call that stopped with %s stopped with %s", async (said, meant) => {
  const body =
    messageStart() +
    toolBlock(0, "{}") +
    event("message_delta", { delta: { stop_reason: said }, usage: { output_tokens: 7 } }) +
    event("message_stop");
  const model = connect(await startProvider((response) => stream(response, body)));
  expect(await model.call(ask(), hold())).toMatchObject({ status: "answer", answer: { stopReason: meant } });
});
