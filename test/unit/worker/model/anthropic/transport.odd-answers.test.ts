import { expect, test } from "vitest";
import type { CallOutcome } from "../../../../../src/worker/model/model.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { until } from "../../../../helpers/until.ts";
import { answer, ask, connect, hold, messageBody, startProvider } from "../scripted-provider.ts";

const hello = [{ type: "text", text: "hello" }];

test.each([
  ["a message", true, "Application/JSON", messageBody(hello)],
  ["a stream", false, "Text/Event-Stream", answer()],
])(
  "the type of %s is read in any case: it is what it says, and not what was asked for",
  async (_, stream, type, body) => {
    const provider = await startProvider((response) =>
      response.writeHead(200, { "Content-Type": type }).end(body),
    );
    expect(await connect(provider).call(ask({ stream }), hold())).toMatchObject({
      status: "answer",
      answer: { content: hello },
    });
  },
);

test("a status without a body is a refusal, at once", async () => {
  const provider = await startProvider((response) => response.writeHead(304).end());
  let outcome: CallOutcome | undefined;
  void connect(provider)
    .call(ask(), hold())
    .then((ended) => {
      outcome = ended;
    });
  await until(() => outcome, { timeoutMs: 20_000 });
  expect(outcome).toMatchObject({
    status: "failed",
    failure: { kind: "invalid_request", httpStatus: 304 },
  });
});

test("a whole answer is not kept back by what its server goes on to send", async () => {
  const clock = handClock();
  let heard = "";
  const provider = await startProvider((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).write(answer());
    const ping = setInterval(() => response.write(": ping\n\n"), 5);
    response.on("close", () => clearInterval(ping));
  });
  const control = hold({
    onText: (text) => {
      heard += text;
    },
  });
  let isOver = false;
  const call = connect(provider, { clock }).call(ask(), control);
  void call.then(() => {
    isOver = true;
  });
  await until(() => heard === "hello");
  let waitedMs = 0;
  await until(() => {
    clock.advance(100);
    waitedMs += 100;
    return isOver || waitedMs > 10_000;
  });
  expect(isOver).toBe(true);
  expect((await call).status).toBe("answer");
});
