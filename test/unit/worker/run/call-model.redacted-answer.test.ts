import { expect, test } from "vitest";
import { type ContentBlock, ZERO_USAGE } from "../../../../src/shared/protocol/content.ts";
import { keepSecret } from "../../../../src/shared/secrets.ts";
import { redactedAnswer } from "../../../../src/worker/run/call-model.ts";

const KEY = 'sk"live/7f3a9b1c2d4e';
keepSecret(KEY);

const answer = (...content: ContentBlock[]) => ({
  content,
  contentJson: JSON.stringify(content),
  refusedCalls: new Map<string, string>(),
  stopReason: "end_turn",
  model: "claude",
  usage: ZERO_USAGE,
});
const text = (said: string) => ({ type: "text", text: said });
const thinking = (said: string) => ({ type: "thinking", thinking: said, signature: `of ${said.length}` });

test.each([
  ["as it is", KEY],
  ["in JSON within JSON", JSON.stringify({ file: JSON.stringify({ key: KEY }) })],
  [
    "in JSON, in broken lines of base64",
    JSON.stringify(
      Buffer.from(KEY)
        .toString("base64")
        .replace(/(.{7})/g, "$1\r\n"),
    ),
  ],
])("a secret in an answer is masked %s, in what is stored as well", (_, said) => {
  const call = { type: "tool_use", id: "toolu_1", name: "write_file", input: { content: said } };
  const shown = redactedAnswer(answer(text(said), call));
  expect(shown.content).toEqual([
    { type: "text", text: expect.stringContaining("[redacted]") },
    { ...call, input: { content: expect.stringContaining("[redacted]") } },
  ]);
  expect(JSON.parse(shown.contentJson)).toEqual(shown.content);
});

test("a secret in two texts of an answer is masked where they are joined; other texts stay as they were sent", () => {
  const call = { type: "tool_use", id: "toolu_1", name: "look", input: {} };
  const shown = redactedAnswer(answer(text(`key: ${KEY.slice(0, 9)}`), call, text(`${KEY.slice(9)} end`)));
  expect(shown.content).toEqual([text("key: [redacted] end"), call]);
  expect(JSON.parse(shown.contentJson)).toEqual(shown.content);
  const harmless = answer(text("one"), call, text("two"));
  expect(redactedAnswer(harmless)).toBe(harmless);
});

test("where a block of thinking holds a secret all thinking of the answer is left out: what is signed comes back whole", () => {
  const hidden = { type: "redacted_thinking", data: "EmwKAhgBEgy3va3pzix" };
  const said = answer(thinking("First."), hidden, thinking(`It is ${KEY}.`), text("Done."));
  expect(redactedAnswer(said).content).toEqual([text("Done.")]);
  keepSecret(hidden.data);
  expect(redactedAnswer(answer(hidden, text("Done."))).content).toEqual([text("Done.")]);
});

test("thinking without a secret stays as it was signed, beside whatever is masked", () => {
  const thought = thinking("Whatever it is.");
  expect(redactedAnswer(answer(thought, text(KEY))).content).toEqual([thought, text("[redacted]")]);
  const clean = answer(thought, text("Done."));
  expect(redactedAnswer(clean)).toEqual(clean);
});

test("a secret in the name of the model that answered, or in why it stopped, is masked, with and without one in the text", () => {
  const named = { model: `claude/${KEY}`, stopReason: KEY };
  for (const said of ["Done.", KEY])
    expect(redactedAnswer({ ...answer(text(said)), ...named })).toMatchObject({
      model: "claude/[redacted]",
      stopReason: "[redacted]",
    });
});

test("calls whose ids hold a secret get ids that a provider takes, each its own; what is said of them stays with them", () => {
  const secret = "live_7f3a9b1c2d4e";
  keepSecret(secret);
  const calls = [`toolu_${secret}`, "call_1", `${secret}_2`].map((id) => ({
    ...{ type: "tool_use", id, name: "look", input: {} },
  }));
  const refusedCalls = new Map([[`${secret}_2`, "No."]]);
  const shown = redactedAnswer({ ...answer(...calls), refusedCalls });
  expect(shown.content.map(({ id }) => id)).toEqual(["call_2", "call_1", "call_3"]);
  expect([...shown.refusedCalls]).toEqual([["call_3", "No."]]);
});

test("a secret in what the provider says of a refusal is masked", () => {
  const refused = { ...answer(), stopReason: "refusal", refusal: `cyber: ${KEY} was sent` };
  expect(redactedAnswer(refused).refusal).toBe("cyber: [redacted] was sent");
  const plain = { ...refused, refusal: "cyber" };
  expect(redactedAnswer(plain)).toBe(plain);
});
