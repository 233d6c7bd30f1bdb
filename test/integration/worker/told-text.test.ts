/** Guarantee: those who watch a run see it begin before its first answer, and read the words of its answers and no others. */
import { expect, test } from "vitest";
import { type ContentBlock, ZERO_USAGE } from "../../../src/shared/protocol/content.ts";
import type { CallControl, CallOutcome, Model } from "../../../src/worker/model/model.ts";
import type { RunContext } from "../../../src/worker/run/context.ts";
import { run } from "../../../src/worker/run/run.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const LONG = "a long word ".repeat(50);

function answered(stopReason: string, ...content: ContentBlock[]): CallOutcome {
  const usage = { ...ZERO_USAGE, input_tokens: 1, output_tokens: 1 };
  const contentJson = JSON.stringify(content);
  return {
    status: "answer",
    answer: { content, contentJson, refusedCalls: new Map(), stopReason, model: "offline-1", usage },
  };
}

/** A queued agent, watched or not, whose calls are answered by `call`; `told`: the text that was published. */
async function scene(
  isWatched: boolean,
  call: (control: CallControl, n: number) => CallOutcome | Promise<CallOutcome>,
) {
  const stage = await openStage({ timing: LONG_TIMING });
  const agent = await stage.task("work");
  if (isWatched) await stage.redis.set(stage.keys.parent(agent).watching, "1");
  let calls = 0;
  const model: Model = {
    async call(_request, control) {
      calls += 1;
      return control.mayBegin() ? call(control, calls) : { status: "aborted" };
    },
    stop: async () => {},
  };
  const told: string[] = [];
  const publish: RunContext["publish"] = (_address, event) => {
    if (event.type === "text_delta") told.push(event.text);
  };
  const context = runContextOf(stage, { model, publish });
  return {
    stage,
    agent,
    told,
    context,
    perform: () => run(context, { address: agent, wake: 1, timesTaken: 1 }),
  };
}

test("a run that is watched is told, with its message, before its first call is over; another with its first answer", async () => {
  for (const isWatched of [true, false]) {
    const stored: string[] = [];
    const { stage, agent, perform } = await scene(isWatched, async () => {
      stored.push(...(await stage.redis.hkeys(stage.keys.agent(agent).log)));
      return answered("end_turn", { type: "text", text: "done" });
    });
    expect(await perform()).toMatchObject({ status: "settled" });
    expect(stored).toEqual(isWatched ? ["0"] : []);
  }
});

test("what a model still writes once its run is destroyed is not told any more", async () => {
  const calls: { control: CallControl; end(outcome: CallOutcome): void }[] = [];
  const { stage, agent, told, context, perform } = await scene(
    true,
    (control) => new Promise((resolve) => calls.push({ control, end: resolve })),
  );
  const over = perform();
  const call = await until(() => calls[0]);
  call.control.onText?.("before. ");
  await stage.destroy(agent);
  await context.leases.held.get(agent.uid)?.renew();
  call.control.onText?.("behind. ");
  call.end({ status: "aborted" });
  expect(await over).toEqual({ status: "lost" });
  expect(told.join("")).toBe("before. ");
});

test("the summary for which a long conversation is left out is not told: it is no answer", async () => {
  const { told, perform } = await scene(true, (control, n) => {
    control.onText?.(`${n}. `);
    if (n === 5)
      return {
        status: "failed",
        failure: { kind: "context_window", retryable: false, message: "prompt is too long" },
      };
    if (n > 5) return answered("end_turn", { type: "text", text: n === 6 ? "short" : "done" });
    const call = { type: "tool_use", id: `c${n}`, name: "look", input: { n } };
    return answered("tool_use", { type: "text", text: LONG }, call);
  });
  expect(await perform()).toMatchObject({ status: "settled", reply: { status: "succeeded", turns: 6 } });
  expect(told.join("")).toBe("1. 2. 3. 4. 5. 7. ");
});
