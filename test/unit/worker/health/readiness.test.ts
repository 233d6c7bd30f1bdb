import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { createReadinessWatch, type ReadinessProbe } from "../../../../src/worker/health/readiness.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

function scene(probes: ReadinessProbe[] = []) {
  const clock = handClock();
  const lines: { msg: string; reasons: string[] }[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  const state = {
    idle: undefined as string | undefined,
    alive: true,
    refusal: undefined as string | undefined,
    server: [] as string[],
    others: [] as string[],
  };
  const watch = createReadinessWatch({
    idle: () => state.idle,
    isRedisAlive: () => state.alive,
    refusal: () => state.refusal,
    server: () => state.server,
    others: () => state.others,
    probes,
    clock,
    logger,
  });
  closeAtEnd(() => watch.stop());
  return { clock, lines, state, watch };
}

test("it is ready while nothing speaks against it, since the moment that began", async () => {
  const { clock, state, watch } = scene();
  clock.advance(1_000);
  const ready = { ready: true, redis: "ready", since: "1970-01-01T00:00:01.000Z", reasons: [] };
  expect(await watch.now()).toEqual(ready);
  clock.advance(5_000);
  expect(await watch.now()).toEqual(ready);
  state.others = ["no wakes are taken"];
  expect(await watch.now()).toEqual({
    ready: false,
    redis: "ready",
    since: "1970-01-01T00:00:06.000Z",
    reasons: ["no wakes are taken"],
  });
});

test("a Redis that does not answer is away, unless it was seen lately what is wrong with it", async () => {
  const { state, watch } = scene();
  state.alive = false;
  expect(await watch.now()).toMatchObject({ redis: "away", reasons: ["Redis does not answer"] });
  state.server = ["Redis is a read-only replica"];
  expect(await watch.now()).toMatchObject({ redis: "ready", reasons: ["Redis is a read-only replica"] });
});

test("a worker that does not work yet, or any more, says so first", async () => {
  const { state, watch } = scene();
  state.idle = "the worker is starting";
  expect(await watch.now()).toMatchObject({ ready: false, reasons: ["the worker is starting"] });
  state.alive = false;
  expect((await watch.now()).reasons).toEqual(["the worker is starting", "Redis does not answer"]);
});

test("probes are asked while Redis is well, and those that are late or fail are a reason of their own", async () => {
  const answers: (() => Promise<string | undefined>)[] = [
    async () => undefined,
    async () => "the model's breaker is open",
    () => Promise.reject(new Error("no such key")),
    () => new Promise(() => {}),
    () => new Promise(() => {}),
  ];
  let asked = 0;
  const { clock, state, watch } = scene(
    answers.map((answer) => () => {
      asked += 1;
      return answer();
    }),
  );
  const now = watch.now();
  clock.advance(1_000);
  expect((await now).reasons).toEqual([
    "the model's breaker is open",
    "a check failed: no such key",
    "a check does not answer",
  ]);
  state.alive = false;
  await watch.now();
  expect(asked).toBe(answers.length);
});

test("changes are logged, but not the first time it is ready", async () => {
  const { clock, lines, state, watch } = scene();
  const settled = async () => {
    clock.advance(2_000);
    await watch.now();
  };
  state.idle = "the worker is starting";
  watch.start();
  watch.start();
  await settled();
  state.idle = undefined;
  await settled();
  expect(lines).toEqual([]);
  state.alive = false;
  await settled();
  state.alive = true;
  await settled();
  expect(lines.map(({ msg, reasons }) => [msg, reasons])).toEqual([
    ["Not ready", ["Redis does not answer"]],
    ["Ready again", []],
  ]);
  watch.stop();
  expect(clock.pending).toBe(0);
});
