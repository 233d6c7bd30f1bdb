import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { type Clock, systemClock } from "../../../../src/shared/clock.ts";
import { ToolFailure } from "../../../../src/shared/errors.ts";
import { SPAWNING_TOOLS } from "../../../../src/shared/protocol/permissions.ts";
import { keepSecret } from "../../../../src/shared/secrets.ts";
import { StopSignal } from "../../../../src/shared/stop-signal.ts";
import { createToolbox, runTool } from "../../../../src/worker/tools/registry.ts";
import { CUT_MARKER } from "../../../../src/worker/tools/result-text.ts";
import { defineTool, type Tool } from "../../../../src/worker/tools/tool.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { openScene, type Scene, stoppedBy } from "./scene.ts";

const tool = (name: string, run: Tool["run"] = async () => name, more: { idempotent?: boolean } = {}): Tool =>
  defineTool({ name, description: "For tests.", input: z.object({ n: z.int().optional() }), run, ...more });

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
});

const call = (
  one: Tool | undefined,
  options: { input?: unknown; signal?: AbortSignal; stop?: StopSignal; clock?: Clock; name?: string } = {},
) =>
  runTool(
    one,
    { id: "toolu_1", name: options.name ?? one?.name ?? "?", input: options.input ?? {} },
    scene.context(options.signal),
    {
      offered: one ? [one.name] : ["grep", "read_file"],
      clock: options.clock ?? systemClock,
      stop: options.stop ?? stoppedBy(options.signal),
    },
  );

describe("createToolbox", () => {
  it("gives all tools when no allowlist is given, sorted by name", () => {
    const toolbox = createToolbox([tool("b"), tool("c"), tool("a")]);
    expect(toolbox.resolve(undefined).tools.map(({ name }) => name)).toEqual(["a", "b", "c"]);
    expect(toolbox.resolve(undefined).unknown).toEqual([]);
  });

  it("lets no tool that becomes known later take the place of one that it has", () => {
    const own = tool("a");
    const toolbox = createToolbox([own], () => [tool("a"), tool("b")]);
    const { tools } = toolbox.resolve(undefined);
    expect(tools.map(({ name }) => name)).toEqual(["a", "b"]);
    expect(tools[0]).toBe(own);
  });

  it("gives exactly the allowed ones, in the same order however they are written", () => {
    const toolbox = createToolbox([tool("b"), tool("c"), tool("a")]);
    for (const allowlist of [
      ["c", "a"],
      ["a", "c", "a"],
    ]) {
      expect(toolbox.resolve(allowlist).tools.map(({ name }) => name)).toEqual(["a", "c"]);
    }
    expect(toolbox.resolve([])).toEqual({ tools: [], unknown: [] });
  });

  it("ignores unknown and spawning names and reports them", () => {
    const { tools, unknown } = createToolbox([tool("a")]).resolve(["zap", "a", "task", "constructor"]);
    expect(tools.map(({ name }) => name)).toEqual(["a"]);
    expect(unknown).toEqual(["constructor", "task", "zap"]);
  });

  it("refuses a tool whose input schema would have every request refused", () => {
    const odd = { ...tool("a"), inputSchema: { type: "object" as const, properties: { "x[y]": {} } } };
    expect(() => createToolbox([odd])).toThrow(/^Tool a: its input has a property "x\[y\]", whose name/);
    const named = defineTool({
      name: "b",
      description: "b",
      input: z.object({ "x y": z.string() }),
      run: async () => "",
    });
    expect(() => createToolbox([named])).toThrow(expect.objectContaining({ code: "invalid_tool" }));
  });

  it("refuses two tools of one name, and every spawning name", () => {
    expect(() => createToolbox([tool("a"), tool("a")])).toThrow(
      expect.objectContaining({ code: "invalid_tool" }),
    );
    for (const name of SPAWNING_TOOLS)
      expect(() => createToolbox([tool(name)]), name).toThrow(
        expect.objectContaining({ code: "invalid_tool" }),
      );
  });
});

describe("runTool", () => {
  it("masks a secret in an error before the error is cut: no half of it is left", async () => {
    const secret = "sk-cut-7f3a9b1c2d4e5f60";
    keepSecret(secret);
    const failing = tool("a", () => Promise.reject(new Error(`${"x".repeat(1_990)}${secret}`)));
    const { content } = await call(failing);
    expect(content).not.toContain("sk-cut");
    expect(content).toContain("x[redacted");
  });

  it("masks a secret in what a tool returns", async () => {
    keepSecret("sk-said-1a2b3c4d5e6f7a8b");
    const { content } = await call(tool("a", async () => "it is sk-said-1a2b3c4d5e6f7a8b."));
    expect(content).toBe("it is [redacted].");
  });

  it("leaves no timer when the tool is over", async () => {
    const clock = handClock();
    await call(tool("a"), { clock });
    await call(
      tool("a", () => Promise.reject(new Error("no"))),
      { clock },
    );
    expect(clock.pending).toBe(0);
  });

  it("returns what the tool said, joined from its blocks", async () => {
    const blocks = tool("a", async () => [
      { type: "text", text: "one" },
      { type: "text", text: "two" },
    ]);
    expect(await call(blocks)).toMatchObject({ content: "one\ntwo", isError: false });
    expect(await call(tool("a", async () => ""))).toMatchObject({ content: "(no output)", isError: false });
  });

  it("gives the model a number or an object as text", async () => {
    expect(await call(tool("a", async () => 42))).toMatchObject({ content: "42", isError: false });
    expect(await call(tool("a", async () => ({ rows: 3 })))).toMatchObject({ content: '{"rows":3}' });
    expect(await call(tool("a", async () => undefined))).toMatchObject({ content: "(no output)" });
  });

  it("says which tools there are when one is unknown or not offered", async () => {
    const outcome = await call(undefined, { name: "raed_file" });
    expect(outcome).toMatchObject({ isError: true });
    expect(outcome.content).toBe('There is no tool named "raed_file". Use one of: grep, read_file.');
    const foreign = await runTool(tool("a"), { id: "t", name: "a", input: {} }, scene.context(), {
      offered: [],
      clock: systemClock,
      stop: stoppedBy(),
    });
    expect(foreign.content).toBe('There is no tool named "a". Answer without tools.');
  });

  it("does not run a tool whose run is another worker's by the time its input is checked", async () => {
    let ran = 0;
    const one = tool("a", async () => `${ran++}`);
    const runs = (mayRun: boolean) =>
      runTool(one, { id: "t", name: "a", input: {} }, scene.context(), {
        offered: ["a"],
        clock: systemClock,
        stop: stoppedBy(),
        mayRun: () => mayRun,
      });
    const refused = await runs(false);
    expect(refused).toMatchObject({ isError: true, content: expect.stringContaining("Not started") });
    expect(ran).toBe(0);
    expect(await runs(true)).toMatchObject({ isError: false, content: "0" });
  });

  it("tells a child that hallucinates a spawning tool to do the work itself", async () => {
    for (const name of SPAWNING_TOOLS) {
      const outcome = await call(undefined, { name });
      expect(outcome.isError).toBe(true);
      expect(outcome.content).toContain("a sub-agent cannot start or manage other agents");
    }
  });

  it("names the field of an invalid input and does not run the tool", async () => {
    let ran = false;
    const outcome = await call(
      tool("a", async () => {
        ran = true;
        return "";
      }),
      { input: { n: "x" } },
    );
    expect(outcome).toMatchObject({ isError: true });
    expect(outcome.content).toMatch(
      /^Invalid input for a: field `n`: .*Correct it and call the tool again\.$/,
    );
    expect(ran).toBe(false);
  });

  it("passes on a failure as written, and any other error without host paths", async () => {
    const plain = tool("a", async () => Promise.reject(new ToolFailure("Nothing there.")));
    expect(await call(plain)).toMatchObject({ content: "Nothing there.", isError: true });
    const broken = tool("a", () => {
      throw new RangeError(`${scene.home}/x is bad.`);
    });
    const outcome = await call(broken);
    expect(outcome.isError).toBe(true);
    expect(outcome.content).toBe("a failed: ./x is bad. Check the input, or go on without this tool.");
    const mute = Object.defineProperty(new Error(), "message", {
      get: () => {
        throw new Error("no message");
      },
    });
    for (const thrown of [undefined, null, "text", { a: 1 }, Object.create(null), mute]) {
      expect(await call(tool("a", () => Promise.reject(thrown)))).toMatchObject({ isError: true });
    }
  });

  it("tells the model of a failure whose message is no text", async () => {
    const numbered = Object.assign(new ToolFailure(""), { message: 5 });
    const mute = Object.defineProperty(new ToolFailure(""), "message", {
      get: () => {
        throw new Error("no message");
      },
    });
    const outcomes = [numbered, mute].map((thrown) => call(tool("a", () => Promise.reject(thrown))));
    expect(await Promise.all(outcomes)).toMatchObject([
      { isError: true, content: "5" },
      { isError: true, content: "something without a message was thrown." },
    ]);
  });

  it("stops a tool at its time limit, aborts its signal and says whether the effect is unknown", async () => {
    for (const idempotent of [false, true]) {
      let aborted = false;
      let expire = (): void => {};
      const clock: Clock = {
        ...systemClock,
        timeout: (ms, callback) => {
          expect(ms).toBe(120_000);
          expire = callback;
          return { cancel: () => {} };
        },
      };
      const deaf = tool(
        "a",
        (_input, { signal }) => {
          signal.addEventListener("abort", () => (aborted = true));
          expire();
          return new Promise(() => {});
        },
        { idempotent },
      );
      const outcome = await call(deaf, { clock });
      expect(aborted).toBe(true);
      expect(outcome.content).toMatch(/^a did not finish within 120 s/);
      expect(outcome.content.includes("effect is unknown")).toBe(!idempotent);
    }
  });

  it("stops a check that does not end, at its time limit and with the run, and runs nothing after it", async () => {
    let pass = (_: boolean): void => {};
    let ran = false;
    const waiting = defineTool({
      name: "a",
      description: "For tests.",
      timeoutMs: 20,
      input: z.object({ n: z.int().refine(() => new Promise<boolean>((resolve) => (pass = resolve))) }),
      run: async () => {
        ran = true;
        return "done";
      },
    });
    const late = await call(waiting, { input: { n: 1 } });
    expect(late.content).toMatch(/^a did not finish within 0.02 s/);
    const stop = new AbortController();
    const stopped = call({ ...waiting, timeoutMs: 60_000 }, { input: { n: 1 }, signal: stop.signal });
    stop.abort();
    expect((await stopped).content).toMatch(/^Cancelled/);
    pass(true);
    await new Promise((resolve) => setImmediate(resolve));
    expect(ran).toBe(false);
  });

  it("does not count the wait for earlier work on the workspace against the time of a call", async () => {
    const clock = handClock();
    let release = (): void => {};
    const earlier = scene.workspace.exclusive(() => new Promise<void>((resolve) => (release = resolve)));
    const waits = tool("a", (_input, { workspace, signal }) =>
      workspace.exclusive(
        () => new Promise((resolve) => signal.addEventListener("abort", () => resolve(""), { once: true })),
      ),
    );
    const called = call(waits, { clock });
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(600_000);
    release();
    await earlier;
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(119_999);
    expect(clock.pending).toBe(1);
    clock.advance(1);
    expect((await called).content).toMatch(/^a did not finish within 120 s/);
    expect(clock.pending).toBe(0);
  });

  it("begins no work on the workspace for a call that was stopped while it waited for earlier work", async () => {
    let release = (): void => {};
    const earlier = scene.workspace.exclusive(() => new Promise<void>((resolve) => (release = resolve)));
    const stop = new StopSignal();
    let changes = 0;
    const change = tool("a", (_input, { workspace }) => workspace.exclusive(async () => `${changes++}`));
    const called = call(change, { stop });
    await new Promise((resolve) => setImmediate(resolve));
    stop.stop();
    expect((await called).content).toMatch(/^Cancelled/);
    release();
    await earlier;
    await scene.workspace.exclusive(async () => {});
    expect(changes).toBe(0);
  });

  it("leaves no timer of a call that is over before its work on the workspace begins", async () => {
    const clock = handClock();
    let release = (): void => {};
    const earlier = scene.workspace.exclusive(() => new Promise<void>((resolve) => (release = resolve)));
    const leaves = tool("a", async (_input, { workspace }) => {
      void workspace.exclusive(async () => {});
      return "goes on";
    });
    expect((await call(leaves, { clock })).content).toBe("goes on");
    release();
    await earlier;
    await scene.workspace.exclusive(async () => {});
    expect(clock.pending).toBe(0);
  });

  it("begins no work on the workspace if the run was lost while the call waited for earlier work", async () => {
    let release = (): void => {};
    const earlier = scene.workspace.exclusive(() => new Promise<void>((resolve) => (release = resolve)));
    let [isHeld, changes] = [true, 0];
    const change = tool("a", (_input, { workspace }) => workspace.exclusive(async () => `${changes++}`));
    const changed = runTool(change, { id: "t", name: "a", input: {} }, scene.context(), {
      offered: ["a"],
      clock: systemClock,
      stop: stoppedBy(),
      mayRun: () => isHeld,
    });
    await new Promise((resolve) => setImmediate(resolve));
    isHeld = false;
    release();
    await earlier;
    expect(await changed).toMatchObject({ isError: true, content: expect.stringMatching(/^Not started/) });
    expect(changes).toBe(0);
  });

  it("gives up at once when the run is stopped, and starts nothing afterwards", async () => {
    const stop = new AbortController();
    let calls = 0;
    const endless = tool("a", (_input, { signal }) => {
      calls++;
      stop.abort();
      return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    expect(await call(endless, { signal: stop.signal })).toMatchObject({ isError: true });
    expect((await call(endless, { signal: stop.signal })).content).toMatch(/^Cancelled/);
    expect(calls).toBe(1);
  });

  it("leaves no listener on the run's signal after 50 calls in parallel", async () => {
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on("warning", note);
    const stop = new StopSignal();
    const listens = tool("a", async (_input, { signal }) => {
      signal.addEventListener("abort", () => {}, { once: true });
      return "a";
    });
    await Promise.all(Array.from({ length: 50 }, () => call(listens, { stop })));
    await new Promise(setImmediate);
    process.off("warning", note);
    expect(warnings).toEqual([]);
  });

  it("cuts 200 MB of output and keeps result and memory small", async () => {
    const flood = tool("a", async () => "y\n".repeat(100_000_000));
    const outcome = await call(flood);
    expect(outcome.isError).toBe(false);
    expect(outcome.content).toHaveLength(50_000);
    expect(outcome.content.endsWith(CUT_MARKER)).toBe(true);
  });

  it("measures how long a call took on the monotonic clock", async () => {
    const times = [1_000, 1_250];
    const clock = { ...systemClock, monotonicMs: () => times.shift() ?? 0 };
    expect(await call(tool("a"), { clock })).toMatchObject({ durationMs: 250 });
  });
});
