/** Guarantee: the list of tools is the same object until there are more, an allowlist may name a server, and the words of a failure are short sentences. */
import { expect, it } from "vitest";
import { z } from "zod";
import { systemClock } from "../../../../src/shared/clock.ts";
import { StopSignal } from "../../../../src/shared/stop-signal.ts";
import { createToolbox, runTool } from "../../../../src/worker/tools/registry.ts";
import { defineTool, type Tool } from "../../../../src/worker/tools/tool.ts";
import { openScene } from "./scene.ts";

const tool = (name: string): Tool =>
  defineTool({ name, description: "Does nothing.", input: z.object({}), run: async () => "" });

it("the whole list is made once, and again when there are more tools", () => {
  let later: readonly Tool[] = [];
  const box = createToolbox([tool("b")], () => later);
  const { tools } = box.resolve(undefined);
  expect(box.resolve(undefined).tools).toBe(tools);
  later = [tool("a")];
  expect(box.resolve(undefined).tools.map(({ name }) => name)).toEqual(["a", "b"]);
});

it("the name of a server stands for its tools, and is not unknown", () => {
  const ofServer = { ...tool("mcp__wiki__read"), server: "mcp__wiki" };
  const { tools, unknown } = createToolbox([tool("b"), ofServer]).resolve(["mcp__wiki", "mcp__none"]);
  expect(tools).toEqual([ofServer]);
  expect(unknown).toEqual(["mcp__none"]);
});

it("a name that no tool has and the words of a failure are repeated in part", async () => {
  const { context } = await openScene();
  const options = { offered: ["fails"], clock: systemClock, stop: new StopSignal() };
  const call = { id: "toolu_1", name: "x".repeat(10_000), input: {} };
  const unknown = await runTool(undefined, call, context(), options);
  expect(unknown.content).toMatch(/^There is no tool named "x{90,}/);
  expect(unknown.content.length).toBeLessThan(200);
  const run = async () => Promise.reject(new RangeError("y".repeat(10_000)));
  const fails = defineTool({ name: "fails", description: "Fails.", input: z.object({}), run });
  const failed = await runTool(fails, { ...call, name: "fails" }, context(), options);
  expect(failed.content).toMatch(/^fails failed: y{1900,}.* Check the input/);
  expect(failed.content.length).toBeLessThan(2_200);
});

it("the words of a failure end before the advice that follows them", async () => {
  const { context } = await openScene();
  const options = { offered: ["fails"], clock: systemClock, stop: new StopSignal() };
  const call = { id: "toolu_1", name: "fails", input: {} };
  const told = async (error: Error) => {
    const run = async () => Promise.reject(error);
    const fails = defineTool({ name: "fails", description: "Fails.", input: z.object({}), run });
    return (await runTool(fails, call, context(), options)).content;
  };
  const advice = "Check the input, or go on without this tool.";
  expect(await told(new Error("connect ECONNREFUSED"))).toBe(`fails failed: connect ECONNREFUSED. ${advice}`);
  expect(await told(new Error("Is it there?\n"))).toBe(`fails failed: Is it there? ${advice}`);
  expect(await told(new Error(""))).toBe(`fails failed: something without a message was thrown. ${advice}`);
});
