/**
 * Guarantee: the doctor finds nothing wrong with a healthy installation, however busy it is and however often one looks.
 * `DOCTOR_LOOKS` says how often (default 6; the long form is 100: what has ended stays, and each look takes longer).
 */
import { expect, test } from "vitest";
import { OVERDUE_GRACE_MS } from "../../src/cli/doctor/facts.ts";
import { TIMING } from "../../src/shared/protocol/limits.ts";
import { doctorFor } from "../helpers/doctor.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const LOOKS = Number(process.env.DOCTOR_LOOKS ?? 6);
const LANES = 12;
const LOOK_LIMIT_MS = 5_000;

const scenario = [
  {
    match: { user: "quick" },
    turns: [{ content: [{ type: "text" as const, text: "done" }] }],
    repeat: true,
  },
  {
    turns: [
      { latencyMs: 30, content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }] },
      { latencyMs: 30, content: [{ type: "text" as const, text: "done" }] },
    ],
    repeat: true,
  },
];

/** Runs agents of every kind side by side until `over`: kept alive, idle to death, destroyed. */
async function work(installation: Stage, over: AbortSignal): Promise<number> {
  let ends = 0;
  const lane = async (n: number) => {
    for (let k = 0; !over.aborted; k += 1) {
      const keep_alive = (n + k) % 3 === 0;
      const agent = await installation.task(k % 2 === 0 ? "quick" : "slow", { keep_alive, idle_ms: 200 });
      if (k % 5 === 4) await installation.destroy(agent);
      else await installation.reply(agent);
      ends += 1;
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_, n) => lane(n)));
  return ends;
}

test("a busy installation is healthy at every look", {
  timeout: 300_000 + LOOKS * LOOK_LIMIT_MS,
}, async () => {
  const installation = await openStage({ scenario });
  const doctor = await doctorFor(installation, {
    timing: TIMING,
    graceMs: OVERDUE_GRACE_MS,
    secondCheckMs: 500,
  });
  for (let n = 0; n < 2; n += 1) await installation.startWorker({ concurrency: 3 });
  const over = new AbortController();
  const working = work(installation, over.signal);
  let busy = 0;
  try {
    for (let looks = 0; looks < LOOKS; looks += 1) {
      // Workers come and go meanwhile.
      const another = looks % 3 === 0 ? await installation.startWorker({ concurrency: 3 }) : undefined;
      const { findings, facts } = await doctor.look();
      expect(findings.filter(({ area }) => area !== "redis")).toEqual([]);
      if (facts.agents.some(({ record }) => record?.status === "running")) busy += 1;
      await another?.stop();
    }
  } finally {
    over.abort();
  }
  expect(busy).toBeGreaterThan(0);
  expect(await working).toBeGreaterThan(LOOKS);
});
