/**
 * Patterns and rules that never end, beside other runs' ordinary searches: who waits, and for how long. Each costs seconds of CPU:
 * `HOSTILE_PATTERNS=all` tries every spelling and sixty searches at once.
 */
import { beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { StopSignal } from "../../../src/shared/stop-signal.ts";
import { runTool, type ToolOutcome } from "../../../src/worker/tools/registry.ts";
import { openScene, type Scene } from "../../unit/worker/tools/scene.ts";
import { watchSilence } from "./silence.ts";

/** The longest time for which the event loop may be silent. */
const SILENCE_MS = 250;

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
  await scene.put("victim.txt", `${"a".repeat(40)}!\nneedle\n`);
  await scene.put("a".repeat(250), "");
});

/** One call of one run. */
function call(uid: string, name: string, input: unknown): Promise<ToolOutcome> {
  return runTool(
    scene.tools.find((tool) => tool.name === name),
    { id: "toolu_1", name, input },
    { ...scene.context(), uid },
    { offered: [name], clock: systemClock, stop: new StopSignal() },
  );
}

const isWhole = process.env.HOSTILE_PATTERNS === "all";
/** How many searches the hostile run asks for at once. They run one after the other, at most 10 s each; a call has 120 s. */
const SEARCHES = isWhole ? 60 : 8;

/** Picomatch does not return from these. */
const NEVER_COMPILED = ["*\\\\\\\\", "{a,b}\\\\\\\\"];
const OTHER_SPELLINGS = ["*\\\\\\\\\\\\", "a*\\\\\\\\", "?\\\\\\\\", "[a]\\\\\\\\", `${"*(a)".repeat(30)}b`];
/** A backtracking engine does not return from these. */
const NEVER_MATCHED = [`${"*a".repeat(40)}b`, `+(${"a|".repeat(20)}a)b`, "+(+(+(a)))b"];
const EVIL_EXPRESSIONS = [
  "(a+)+$",
  "^(a|a)*$",
  "(a*)*b$",
  "^(([a-z])+.)+[A-Z]([a-z])+$",
  "(.*a){30}$",
  "^(a+)+\\1?$",
  "(?=(a+)+$)b",
  "((((a*)*)*)*)*b",
];

describe("a model's pattern", () => {
  it.each([...NEVER_COMPILED, ...NEVER_MATCHED, ...(isWhole ? OTHER_SPELLINGS : [])])(
    "%s as a glob is answered and silences nothing",
    async (glob) => {
      const silenceMs = watchSilence();
      const answers = [
        call("evil", "glob", { pattern: glob }),
        call("evil", "grep", { pattern: "needle", glob }),
      ];
      for (const { content } of await Promise.all(answers)) {
        expect(content).toMatch(/no matches|takes too long|^victim\.txt|malformed|a{250}/);
      }
      expect(silenceMs()).toBeLessThan(SILENCE_MS);
    },
  );

  it.each(EVIL_EXPRESSIONS)("%s as an expression is answered and silences nothing", async (pattern) => {
    const silenceMs = watchSilence();
    const { content } = await call("evil", "grep", { pattern });
    expect(content).toMatch(/no matches|takes too long|^victim\.txt/);
    expect(silenceMs()).toBeLessThan(SILENCE_MS);
  });

  it("holds up no other run, though its model asks for many at once", async () => {
    const silenceMs = watchSilence();
    const evil = Array.from({ length: SEARCHES }, (_, n) =>
      call("evil", "grep", { pattern: `^(a+)+\\1?${n}$` }),
    );
    let evilOver = false;
    void Promise.all(evil).then(() => (evilOver = true));
    const victims = Array.from({ length: 10 }, (_, n) => call(`victim-${n}`, "grep", { pattern: "needle" }));
    for (const { content } of await Promise.all(victims)) expect(content).toBe("victim.txt:2:needle");
    expect(evilOver).toBe(false);
    const found = await Promise.all(evil);
    expect(found.filter(({ isError }) => isError)).toEqual([]);
    expect(silenceMs()).toBeLessThan(SILENCE_MS);
  });

  it("holds up no other run as a rule in a .gitignore either", async () => {
    const slow = await openScene();
    // Each rule ends soon; all of them for each name do not.
    const rules = Array.from({ length: 2_000 }, (_, n) => `*a${n}*b*c`).join("\n");
    for (const folder of "abcdefgh") {
      await slow.put(`${folder}/.gitignore`, `${rules}\n`);
      for (let n = 0; n < 100; n++) await slow.put(`${folder}/${"a".repeat(200)}${n}`, "needle");
    }
    const silenceMs = watchSilence();
    const evil = slow.call("grep", { pattern: "needle" });
    let evilOver = false;
    void evil.then(() => (evilOver = true));
    expect((await call("victim", "grep", { pattern: "needle" })).content).toBe("victim.txt:2:needle");
    expect(evilOver).toBe(false);
    expect((await evil).content).toMatch(/^a\/a+\d+:1:needle\n/);
    expect(silenceMs()).toBeLessThan(SILENCE_MS);
  });
});
