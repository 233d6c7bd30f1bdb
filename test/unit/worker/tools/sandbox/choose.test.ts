import { describe, expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { chooseRunner, type RunnerOptions } from "../../../../../src/worker/tools/sandbox/choose.ts";
import { openScene } from "../scene.ts";

const choose = (more: Partial<RunnerOptions>) =>
  chooseRunner({
    clock: systemClock,
    mode: "sandboxed",
    production: false,
    acceptUnsandboxed: false,
    ...more,
  });

describe("chooseRunner", () => {
  it("offers no runner when the operator says so, or when bubblewrap is missing or does nothing", async () => {
    expect(await choose({ mode: "off" })).toEqual({ sentence: "bash is off (SUBAGENT_BASH=off)." });
    for (const bwrap of ["/none/bwrap", "/bin/true", "/bin/false", "/bin/cat"]) {
      const { runner, sentence } = await choose({ bwrap, runsc: "/none/runsc" });
      expect(runner).toBeUndefined();
      expect(sentence).toMatch(
        /^bash is not offered: no sandbox runs here \(bubblewrap: .+; runsc: it is not installed\)/,
      );
    }
  });

  it("refuses options that it does not know or cannot use, and names each", async () => {
    const wrong = {
      acceptRisk: true,
      mode: "bwrap",
      production: "no",
      bwrap: "",
      egress: { hosts: ["a"] },
      clock: {},
    };
    await expect(Reflect.apply(chooseRunner, undefined, [wrong])).rejects.toMatchObject({
      code: "invalid_config",
      details: {
        problems: [
          "acceptRisk is no option of chooseRunner",
          expect.stringMatching(/^clock must be a clock: /),
          "mode must be sandboxed, bubblewrap, runsc, off or unsandboxed",
          "production must be true or false",
          "bwrap must be the path of bubblewrap",
          "egress must be texts: { hosts, ranges }",
        ],
      },
    });
  });

  it("refuses to go without a sandbox in production unless the risk is accepted", async () => {
    await expect(choose({ mode: "unsandboxed", production: true })).rejects.toMatchObject({
      code: "invalid_config",
    });
    const accepted = await choose({ mode: "unsandboxed", production: true, acceptUnsandboxed: true });
    expect(accepted.runner?.kind).toBe("none");
    expect(accepted.sentence).toMatch(/WITHOUT a sandbox/);
  });

  it("takes options that are undefined for their defaults: production, and a sandbox", async () => {
    const undefinedOnes = { clock: undefined, production: undefined, acceptUnsandboxed: undefined };
    const asked: Promise<unknown> = Reflect.apply(chooseRunner, undefined, [
      { ...undefinedOnes, mode: "unsandboxed" },
    ]);
    await expect(asked).rejects.toMatchObject({ code: "invalid_config" });
  });

  it("shows a command without a sandbox nothing of the worker's environment, and kills its group", async () => {
    const { runner } = await choose({ mode: "unsandboxed" });
    const { workspace } = await openScene();
    const run = (script: string, timeoutMs = 10_000) =>
      runner?.run({ script, workspace, timeoutMs, signal: new AbortController().signal });
    process.env.SUBAGENT_TEST_CANARY = "canary";
    expect((await run("env"))?.output).not.toContain("canary");
    delete process.env.SUBAGENT_TEST_CANARY;
    expect((await run("cat /proc/self/oom_score_adj"))?.output).toBe("1000\n");
    expect(await run("mkdir d && cd d; exit 2")).toMatchObject({
      exitCode: 2,
      cwd: `${workspace.directory}/d`,
    });
    expect(await run("sleep 43213 & sleep 43213", 300)).toMatchObject({ killed: "timeout" });
  });
});
